"""Messages of the Agent Client Protocol: what is sent, and what is made of what agents answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import MessageError
from hearth.packs.agents import acp
from hearth.packs.agents.model import Mode

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
MODE_OPTION = {
    "id": "permission",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "plan",
    "options": [{"value": "plan", "name": "Plan", "description": "Reads only"}, {"value": "auto", "name": "Auto"}],
}
MODEL_OPTION = {
    "id": "model",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "large",
    "options": [{"group": "g", "name": "G", "options": [{"value": "large", "name": "Large"}]}],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def objects(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects in which each of these members may be there, and may be anything."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, JSON))


def option(id: str, kind: str) -> acp.PermissionOption:
    return acp.PermissionOption(id, id, kind)


# --- what is sent


def test_neither_files_nor_terminals_nor_forms_are_declared() -> None:
    params = acp.initialize_params()
    assert params["protocolVersion"] == 1
    assert params["clientCapabilities"] == {"session": {"compaction": {}, "notices": {}}}
    assert params["clientInfo"]["name"] == "hearth"


def test_a_session_is_opened_with_servers_in_the_form_of_the_protocol() -> None:
    server = acp.stdio_server("hearth", "/usr/bin/python3", ["-I", "x"], {"A": "b"})
    assert server == {
        "name": "hearth",
        "command": "/usr/bin/python3",
        "args": ["-I", "x"],
        "env": [{"name": "A", "value": "b"}],
    }
    assert acp.new_session_params("/w", [server]) == {"cwd": "/w", "mcpServers": [server]}
    assert acp.known_session_params("s", "/w", []) == {"sessionId": "s", "cwd": "/w", "mcpServers": []}


def test_a_prompt_has_a_block_for_each_text() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert acp.prompt_params("s", "a", "b") == {"sessionId": "s", "prompt": blocks}


def test_a_config_option_says_its_type_only_where_it_is_boolean() -> None:
    assert acp.config_option_params("s", "o", "v") == {"sessionId": "s", "configId": "o", "value": "v"}
    assert acp.config_option_params("s", "o", True) == {
        "sessionId": "s",
        "configId": "o",
        "value": True,
        "type": "boolean",
    }


def test_a_permission_is_answered_by_an_option_or_as_cancelled() -> None:
    assert acp.permission_result("yes") == {"outcome": {"outcome": "selected", "optionId": "yes"}}
    assert acp.permission_result(None) == {"outcome": {"outcome": "cancelled"}}


# --- initialize


def test_capabilities_are_what_the_agent_declares() -> None:
    found = acp.parse_initialize(
        {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "mcpCapabilities": {"http": True},
                "sessionCapabilities": {"resume": {}, "close": None},
            },
            "authMethods": [{"id": "key", "name": "API key"}, 7, {"name": "no id"}, {"id": "t", "type": "terminal"}],
            "agentInfo": {"name": "gemini-cli", "title": "Gemini CLI", "version": "1.2"},
        }
    )
    assert (found.load, found.resume, found.close, found.mcp_http) == (True, True, False, True)
    assert found.auth_methods == (
        acp.AuthMethod("key", "API key", None, "agent"),
        acp.AuthMethod("t", "t", None, "terminal"),
    )
    assert (found.name, found.version) == ("Gemini CLI", "1.2")


def test_an_agent_that_declares_nothing_can_nothing() -> None:
    assert acp.parse_initialize({"protocolVersion": 1}) == acp.AgentCapabilities()


@pytest.mark.parametrize("version", [None, 0, 2, "1"])
def test_another_version_is_refused_by_its_number(version: object) -> None:
    with pytest.raises(MessageError, match=r"speaks version .* of ACP, and Hearth speaks version 1"):
        acp.parse_initialize({"protocolVersion": version})


# --- sessions


def test_modes_come_from_the_older_member_where_there_are_no_config_options() -> None:
    found = acp.parse_session({"sessionId": "s", "modes": MODES, "models": {"currentModelId": "pro"}})
    assert found.modes == (Mode("ask", "Ask"), Mode("code", "Code"))
    assert (found.session_id, found.current_mode, found.mode_option, found.model) == ("s", "ask", None, "pro")
    assert acp.mode_request(found, "code") == ("session/set_mode", {"sessionId": "s", "modeId": "code"})


def test_config_options_come_before_the_older_modes() -> None:
    found = acp.parse_session({"sessionId": "s", "modes": MODES, "configOptions": [MODEL_OPTION, MODE_OPTION]})
    assert found.modes == (Mode("plan", "Plan", "Reads only"), Mode("auto", "Auto"))
    assert (found.current_mode, found.mode_option, found.model) == ("plan", "permission", "large")
    params = {"sessionId": "s", "configId": "permission", "value": "auto"}
    assert acp.mode_request(found, "auto") == ("session/set_config_option", params)


def test_config_options_without_a_mode_leave_the_older_modes() -> None:
    found = acp.parse_session({"sessionId": "s", "modes": MODES, "configOptions": [MODEL_OPTION]})
    assert (found.current_mode, found.mode_option, found.model) == ("ask", None, "large")


def test_models_come_from_config_options_or_the_older_member() -> None:
    models = {"currentModelId": "pro", "availableModels": [{"modelId": "pro", "name": "Pro"}, {"name": "no id"}, 5]}
    found = acp.parse_session({"sessionId": "s", "models": models})
    assert (found.model, found.models, found.model_option) == ("pro", ("pro",), None)
    assert acp.model_params(found, "pro") == {"sessionId": "s", "modelId": "pro"}
    found = acp.parse_session({"sessionId": "s", "models": models, "configOptions": [MODEL_OPTION]})
    assert (found.model, found.models, found.model_option) == ("large", ("large",), "model")


def test_a_mode_is_recognised_by_its_id_where_options_have_no_category() -> None:
    plain = {key: value for key, value in MODE_OPTION.items() if key != "category"} | {"id": "mode"}
    assert acp.parse_session({"sessionId": "s", "configOptions": [plain]}).mode_option == "mode"
    boolean = {"id": "mode", "name": "Mode", "type": "boolean", "currentValue": True}
    assert acp.parse_session({"sessionId": "s", "configOptions": [boolean]}).mode_option is None


def test_a_session_that_is_continued_needs_no_answer_with_an_id() -> None:
    assert acp.parse_session({}, "s").session_id == "s"
    with pytest.raises(MessageError, match="sessionId"):
        acp.parse_session({"modes": MODES})


def test_updates_change_the_state_of_a_session() -> None:
    found = acp.parse_session({"sessionId": "s", "modes": MODES})
    changed = acp.after_update(found, {"sessionUpdate": "current_mode_update", "currentModeId": "code"})
    assert changed.current_mode == "code"
    changed = acp.after_update(changed, {"sessionUpdate": "config_option_update", "configOptions": [MODE_OPTION]})
    assert (changed.current_mode, changed.mode_option) == ("plan", "permission")
    assert acp.after_update(changed, {"sessionUpdate": "plan", "entries": []}) is changed


# --- ends of turns, and errors


# As claude-agent-acp and codex-acp, as Gemini CLI, and as agents that count nothing or in a strange way.
USAGES: list[tuple[dict[str, Any], dict[str, float]]] = [
    (
        {
            "usage": {
                "inputTokens": 5,
                "outputTokens": 2,
                "cachedReadTokens": 7,
                "cachedWriteTokens": 1,
                "totalTokens": 15,
            }
        },
        {"inputTokens": 5, "outputTokens": 2, "cachedInputTokens": 7},
    ),
    (
        {"_meta": {"quota": {"token_count": {"input_tokens": 3, "output_tokens": 4}, "model_usage": []}}},
        {"inputTokens": 3, "outputTokens": 4},
    ),
    ({}, {}),
    ({"usage": [], "_meta": {"quota": 5}}, {}),
    ({"usage": {"inputTokens": -1, "outputTokens": True, "cachedReadTokens": 10**400}}, {}),
    ({"usage": {"inputTokens": None, "outputTokens": 2.5}}, {"outputTokens": 2.5}),
]


@pytest.mark.parametrize(("result", "usage"), USAGES)
def test_a_turn_ends_with_a_reason_and_the_numbers_of_its_usage(
    result: dict[str, Any], usage: dict[str, float]
) -> None:
    end = acp.parse_turn_end({"stopReason": "max_tokens", **result})
    assert end == acp.TurnEnd("max_tokens", usage)
    with pytest.raises(MessageError, match="stopReason"):
        acp.parse_turn_end({"stopReason": 1})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": -32603, "message": "Internal error"}, (-32603, "Internal error")),
        ({"code": -32603, "message": "Internal error", "data": "no credit"}, (-32603, "Internal error: no credit")),
        ({"code": 1, "message": "Bad", "data": {"details": "no credit"}}, (1, "Bad: no credit")),
        ({"code": 1, "message": "Bad", "data": {"message": "no credit"}}, (1, "Bad: no credit")),
        ({"code": 1, "message": "Bad: no credit", "data": {"details": "no credit"}}, (1, "Bad: no credit")),
        ({"code": 1, "data": "no credit"}, (1, "no credit")),
        ({"code": "x", "message": [], "data": []}, (0, "an error without a message")),
        ("boom", (0, "an error without a message")),
    ],
)
def test_errors_are_described_with_the_reason_in_their_data(error: object, expected: tuple[int, str]) -> None:
    assert acp.describe_error(error) == expected


# --- permissions


def test_a_permission_request_has_the_options_that_can_be_told_apart() -> None:
    request = acp.parse_permission(
        {
            "sessionId": "s",
            "toolCall": {"toolCallId": "c", "title": ["no"], "rawInput": {"command": "ls"}},
            "options": [
                {"optionId": "a", "name": "Yes", "kind": "allow_once"},
                {"optionId": "b", "kind": "reject_once"},
                {"optionId": "twice", "name": "Yes", "kind": "allow_once"},
                {"optionId": "twice", "name": "No", "kind": "reject_once"},
                {"name": "no id", "kind": "allow_once"},
                "garbage",
            ],
        }
    )
    assert request.tool_call == {"toolCallId": "c", "rawInput": {"command": "ls"}}
    assert request.options == (
        acp.PermissionOption("a", "Yes", "allow_once"),
        acp.PermissionOption("b", "b", "reject_once"),
    )


@pytest.mark.parametrize("params", [{}, {"sessionId": "s"}, {"sessionId": "s", "toolCall": {}}])
def test_a_permission_request_for_nothing_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(MessageError) as caught:
        acp.parse_permission(params)
    assert caught.value.rpc_code == -32602


def test_only_this_one_use_is_ever_allowed() -> None:
    always = option("always", "allow_always")
    options = [always, option("once", "allow_once"), option("other", "allow_once"), option("no", "reject_once")]
    assert acp.choose_option(options, allow=True) == "once"
    assert acp.choose_option(options, allow=False) == "no"
    assert acp.choose_option([always, option("never", "reject_always")], allow=True) is None
    assert acp.choose_option([always, option("never", "reject_always")], allow=False) == "never"
    assert acp.choose_option([always], allow=False) is None
    assert acp.choose_option([option("new", "allow_for_a_day")], allow=True) is None


def test_a_tool_is_known_by_its_name_and_never_by_its_title() -> None:
    assert acp.tool_name({"name": "Bash", "title": "Read"}) == "Bash"
    assert acp.tool_name({"_meta": {"claudeCode": {"toolName": "Edit"}}}) == "Edit"
    assert acp.tool_name({"title": "Read", "_meta": {"claudeCode": []}}) is None


# --- anything at all


@given(objects("protocolVersion", "agentCapabilities", "authMethods", "agentInfo"))
def test_no_answer_to_initialize_does_more_than_be_refused(result: dict[str, Any]) -> None:
    acp.parse_initialize(result | {"protocolVersion": 1})


@given(
    objects("modes", "models", "configOptions"),
    st.lists(objects("id", "type", "category", "options", "currentValue")),
    objects("availableModes", "currentModeId"),
)
def test_no_answer_to_new_does_more_than_be_refused(
    result: dict[str, Any], options: list[dict[str, Any]], modes: dict[str, Any]
) -> None:
    for given_session in (result, {"configOptions": options, "modes": modes}):
        found = acp.parse_session(given_session, "s")
        assert all(isinstance(mode, Mode) for mode in found.modes)


@given(JSON, st.lists(objects("optionId", "name", "kind")), objects("toolCallId", "title", "content", "_meta"))
def test_no_permission_request_does_more_than_be_refused(
    anything: Any, options: list[dict[str, Any]], call: dict[str, Any]
) -> None:
    acp.describe_error(anything)
    for params in ({"sessionId": "s", "toolCall": call, "options": options}, {"options": anything}):
        try:
            request = acp.parse_permission(params)
        except MessageError:
            continue
        acp.choose_option(request.options, allow=True)
        acp.tool_name(request.tool_call)
