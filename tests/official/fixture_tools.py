"""The tools of the fixture, under the names that the suite looks for."""

import json
from collections.abc import Callable

from fixture_calls import (
    AUDIO,
    IMAGE,
    ROOTS,
    STRING,
    Call,
    Failed,
    Message,
    NeedsInput,
    field,
    form,
    said,
    sampling,
    text,
)
from fixture_offers import PROMPTS, plain

Tool = Callable[[Call], Message]
TOOLS: dict[str, Tool] = {}


def tool(function: Tool) -> Tool:
    TOOLS[function.__name__] = function
    return function


@tool
def test_simple_text(call: Call) -> Message:
    return said(text("This is a simple text response for testing."))


@tool
def test_image_content(call: Call) -> Message:
    return said(IMAGE)


@tool
def test_audio_content(call: Call) -> Message:
    return said(AUDIO)


@tool
def test_embedded_resource(call: Call) -> Message:
    return said({"type": "resource", "resource": plain("test://embedded-resource", "This is an embedded resource.")})


@tool
def test_multiple_content_types(call: Call) -> Message:
    resource = {"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": '{"test":"data"}'}
    return said(text("Multiple content types test:"), IMAGE, {"type": "resource", "resource": resource})


@tool
def test_tool_with_logging(call: Call) -> Message:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        call.log(words)
    return said(text("Tool with logging executed successfully"))


@tool
def test_tool_with_progress(call: Call) -> Message:
    call.progress(0, 50, 100)
    return said(text(str(call.meta.get("progressToken"))))


@tool
def test_error_handling(call: Call) -> Message:
    return said(text("This tool intentionally returns an error for testing"), isError=True)


@tool
def test_reconnection(call: Call) -> Message:
    call.progress(50)
    return said(text("Reconnection test completed successfully."))


@tool
def test_sampling(call: Call) -> Message:
    answer = call.ask("sample", sampling(call.arguments.get("prompt", ""), 100))
    return said(text(f"LLM response: {answer.get('content', {}).get('text')}"))


def _elicited(call: Call, message: str, **properties: Message) -> Message:
    question = form(message, **properties)
    question["params"]["requestedSchema"]["required"] = []
    answer = call.ask("form", question)
    content = json.dumps(answer.get("content") or {})
    return said(text(f"Elicitation completed: action={answer.get('action')}, content={content}"))


@tool
def test_elicitation(call: Call) -> Message:
    answer = call.ask("form", form(call.arguments.get("message", ""), response=STRING))
    content = json.dumps(answer.get("content") or {})
    return said(text(f"User response: action={answer.get('action')}, content={content}"))


@tool
def test_elicitation_sep1034_defaults(call: Call) -> Message:
    return _elicited(
        call,
        "Please review the fields and their defaults",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )


@tool
def test_elicitation_sep1330_enums(call: Call) -> Message:
    titled = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
    options = ["option1", "option2", "option3"]
    many: Message = {"type": "array", "minItems": 1, "maxItems": 3}
    return _elicited(
        call,
        "Please select",
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": options, "enumNames": ["One", "Two", "Three"]},
        untitledMulti={**many, "items": {"type": "string", "enum": options}},
        titledMulti={**many, "items": {"anyOf": titled}},
    )


@tool
def json_schema_2020_12_tool(call: Call) -> Message:
    return said(text(f"called with {json.dumps(call.arguments)}"))


@tool
def test_missing_capability(call: Call) -> Message:
    if "sampling" not in call.can:
        raise Failed(-32021, "this tool needs sampling", {"requiredCapabilities": {"sampling": {}}})
    return said(text("Success"))


@tool
def test_input_required_result_elicitation(call: Call) -> Message:
    return said(text(f"Hello, {field(call.ask('user_name', form('What is your name?', name=STRING)), 'name')}!"))


@tool
def test_input_required_result_sampling(call: Call) -> Message:
    answer = call.ask("sample_request", sampling("What is the capital of France?", 100))
    return said(text(f"Sampling result: {answer.get('content', {}).get('text')}"))


@tool
def test_input_required_result_list_roots(call: Call) -> Message:
    return said(text(f"Found {len(call.ask('roots_request', ROOTS).get('roots', []))} root(s)"))


@tool
def test_input_required_result_request_state(call: Call) -> Message:
    asked = {"confirm": form("Please confirm", ok={"type": "boolean"})}
    if call.state is None or "confirm" not in call.given:
        raise NeedsInput(asked, {"kind": "request-state"})
    return said(text("state-ok: requestState validated"))


@tool
def test_input_required_result_multiple_inputs(call: Call) -> Message:
    asked = {
        "user_name": form("What is your name?", name=STRING),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    _ = call.state
    given = call.ask_all(asked, {"kind": "multiple-inputs"})
    name, greeting = field(given["user_name"], "name"), given["greeting"].get("content", {}).get("text")
    return said(text(f"Name: {name}; Greeting: {greeting}; Roots: {len(given['client_roots'].get('roots', []))}"))


@tool
def test_input_required_result_multi_round(call: Call) -> Message:
    state = call.state
    first = {"step1": form("Step 1: What is your name?", name=STRING)}
    second = {"step2": form("Step 2: What is your favorite color?", color=STRING)}
    if state is None or (state["round"] == 1 and "step1" not in call.given):
        raise NeedsInput(first, {"round": 1})
    if state["round"] == 1:
        raise NeedsInput(second, {"round": 2, "name": field(call.given["step1"], "name")})
    if "step2" not in call.given:
        raise NeedsInput(second, state)
    return said(text(f"Multi-round complete for {state['name']} who likes {field(call.given['step2'], 'color')}"))


@tool
def test_input_required_result_tampered_state(call: Call) -> Message:
    if call.state is None or "confirm" not in call.given:
        raise NeedsInput({"confirm": form("Please confirm", ok={"type": "boolean"})}, {"kind": "tamper-test"})
    return said(text("integrity-ok: state verified"))


@tool
def test_input_required_result_capabilities(call: Call) -> Message:
    if call.given:
        return said(text(f"capabilities-ok: received {','.join(call.given)}"))
    asked = {
        key: question
        for key, capability, question in (
            ("elicit_input", "elicitation", form("Elicitation input", value=STRING)),
            ("sample_input", "sampling", sampling("Sample request", 50)),
        )
        if capability in call.can
    }
    if not asked:
        return said(text("No supported capabilities declared"))
    raise NeedsInput(asked, {"kind": "capabilities-test"})


@tool
def test_streaming_elicitation(call: Call) -> Message:
    call.progress(50)
    return said(text("Streaming complete"))


@tool
def test_logging_tool(call: Call) -> Message:
    call.log("Diagnostic trace logging activated")
    return said(text("Logging evaluated"))


@tool
def test_trigger_tool_change(call: Call) -> Message:
    """Add a tool and remove it again: the notices are due although the list is equal afterwards."""
    TOOLS["test_added_tool"] = test_simple_text
    call.changed("tools")
    del TOOLS["test_added_tool"]
    call.changed("tools")
    return said(text("Mutation triggered"))


@tool
def test_trigger_prompt_change(call: Call) -> Message:
    """Add a prompt and remove it again."""
    PROMPTS["test_added_prompt"] = ()
    call.changed("prompts")
    del PROMPTS["test_added_prompt"]
    call.changed("prompts")
    return said(text("Mutation triggered"))


@tool
def test_custom_header(call: Call) -> Message:
    return said(text(f"region {call.arguments.get('region')}"))


SCHEMAS: dict[str, Message] = {
    "test_sampling": {"type": "object", "properties": {"prompt": STRING}},
    "test_elicitation": {"type": "object", "properties": {"message": STRING}},
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": STRING, "city": STRING}}
        },
        "properties": {
            "name": STRING,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": STRING,
            "email": STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_custom_header": {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "priority": {"type": "integer", "x-mcp-header": "Priority"},
            "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
            "query": STRING,
        },
    },
}


def describe(name: str) -> Message:
    schema = SCHEMAS.get(name, {"type": "object", "properties": {}})
    return {"name": name, "description": name.replace("_", " "), "inputSchema": schema}
