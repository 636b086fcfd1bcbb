"""The resources and prompts of the fixture, under the names that the suite looks for."""

import json
import re

from fixture_calls import IMAGE, STRING, Call, Failed, Message, field, form, text


def plain(uri: str, words: str) -> Message:
    return {"uri": uri, "mimeType": "text/plain", "text": words}


RESOURCES: dict[str, Message] = {
    "test://static-text": plain("test://static-text", "This is the content of the static text resource."),
    "test://static-binary": {"uri": "test://static-binary", "mimeType": "image/png", "blob": IMAGE["data"]},
    "test://watched-resource": plain("test://watched-resource", "Watched resource content"),
}
TEMPLATE = "test://template/{id}/data"


def read(uri: str) -> Message:
    found = re.fullmatch(r"test://template/([^/]+)/data", uri)
    if found:
        body = json.dumps({"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": body}]}
    if uri in RESOURCES:
        return {"contents": [RESOURCES[uri]]}
    raise Failed(-32602, f"there is no resource {uri}", {"uri": uri})


def user(content: Message) -> Message:
    return {"role": "user", "content": content}


def prompt(call: Call) -> Message:
    match call.params.get("name"), call.arguments:
        case "test_simple_prompt" | "test_added_prompt", _:
            messages = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments", {"arg1": first, "arg2": second}:
            messages = [text(f"Prompt with arguments: arg1='{first}', arg2='{second}'")]
        case "test_prompt_with_embedded_resource", {"resourceUri": uri}:
            embedded = {"type": "resource", "resource": plain(uri, "Embedded resource content for testing.")}
            messages = [embedded, text("Please process the embedded resource above.")]
        case "test_prompt_with_image", _:
            messages = [IMAGE, text("Please analyze the image above.")]
        case "test_input_required_result_prompt", _:
            answer = call.ask("user_context", form("What context should the prompt use?", context=STRING))
            messages = [text(f"Prompt with context: {field(answer, 'context')}")]
        case name, _:
            raise Failed(-32602, f"there is no prompt {name}, or an argument is missing", None)
    return {"messages": [user(each) for each in messages]}


PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
