"""Messages of the Agent Client Protocol (ACP), as far as a client without files and terminals needs them. Pure.

Agents are untrusted and of many versions. The protocol's schema tells receivers to take a malformed optional member as
absent, and to skip malformed elements of a list; the parsers do so, and raise MessageError where a required member is
missing. Version 1 is the only one that is not a draft.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hearth import __version__
from hearth.errors import MessageError
from hearth.mcp import messages
from hearth.packs.agents.acp_updates import OPTIONAL, Members, object_of, objects_of, text_of, tidied
from hearth.packs.agents.model import Mode
from hearth.packs.agents.updates import is_count
from hearth.wire.json import INVALID_PARAMS

VERSION = 1

INITIALIZE = "initialize"
AUTHENTICATE = "authenticate"
NEW_SESSION = "session/new"
LOAD_SESSION = "session/load"
RESUME_SESSION = "session/resume"
CLOSE_SESSION = "session/close"
PROMPT = "session/prompt"
CANCEL = "session/cancel"
SET_MODE = "session/set_mode"
# Of agents that are older than config options, such as Gemini CLI.
SET_MODEL = "session/set_model"
SET_CONFIG_OPTION = "session/set_config_option"
# Of the agent.
UPDATE = "session/update"
REQUEST_PERMISSION = "session/request_permission"
# In both directions: the answer is a result, or the error -32800.
CANCEL_REQUEST = "$/cancel_request"

# Codes of errors, beside those of JSON-RPC.
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
REQUEST_CANCELLED = -32800

END_TURN = "end_turn"
CANCELLED = "cancelled"

# Categories of config options.
_MODE, _MODEL = "mode", "model"


class AuthMethod(NamedTuple):
    """Way to log in. Only those of kind "agent" may be given to `authenticate`."""

    id: str
    name: str
    description: str | None
    kind: str


class AgentCapabilities(NamedTuple):
    """Capabilities of an agent, from the result of `initialize`, and its own name and version."""

    load: bool = False
    resume: bool = False
    close: bool = False
    mcp_http: bool = False
    auth_methods: tuple[AuthMethod, ...] = ()
    name: str = ""
    version: str = ""


class SessionInfo(NamedTuple):
    """State of a session as the agent reported it.

    `mode_option` and `model_option` are the ids of the config options that hold the mode and the model, `models` the
    ids of the models that it offers.
    """

    session_id: str
    modes: tuple[Mode, ...] = ()
    current_mode: str | None = None
    mode_option: str | None = None
    model: str | None = None
    model_option: str | None = None
    models: tuple[str, ...] = ()
    config_options: tuple[Members, ...] = ()


class PermissionOption(NamedTuple):
    """Option of a permission request. `kind`: allow_once, allow_always, reject_once or reject_always."""

    id: str
    name: str
    kind: str


class PermissionRequest(NamedTuple):
    """Question of an agent whether it may use a tool. Everything in it is the agent's own text."""

    session_id: str
    tool_call: Members
    options: tuple[PermissionOption, ...]


# Not `cancelled`: Codex ends a turn so when a permission is denied.
_UNFINISHED = {
    "max_tokens": "the turn reached the model's limit of tokens (max_tokens); a prompt such as `go on` continues it",
    "max_turn_requests": "the turn reached the agent's limit of requests to the model (max_turn_requests); a prompt"
    " such as `go on` continues it",
    "refusal": "the model refused to go on (refusal); word the prompt in another way",
}


class TurnEnd(NamedTuple):
    """End of a turn: `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled` or a later reason.

    `usage` has the tokens of this turn by the names of a snapshot, if the agent counts them: an unstable member that
    most agents send.
    """

    stop_reason: str
    usage: dict[str, float]

    @property
    def problem(self) -> str | None:
        """Sentence about a turn that the agent ended before it was done; None for one that is."""
        return _UNFINISHED.get(self.stop_reason)


# --- params of requests and notifications to the agent


def initialize_params() -> Members:
    """Return the params of `initialize`: no files, no terminals, no forms.

    Notices and compactions are declared: an agent sends them as its own words to a client that does not take them.
    """
    return {
        "protocolVersion": VERSION,
        "clientCapabilities": {"session": {"compaction": {}, "notices": {}}},
        "clientInfo": messages.server_info(__version__),
    }


def authenticate_params(method_id: str) -> Members:
    """Return the params of `authenticate`."""
    return {"methodId": method_id}


def stdio_server(name: str, command: str, args: Sequence[str], env: Mapping[str, str]) -> Members:
    """Return an MCP server that every agent can start. `command` must be a whole path."""
    variables = [{"name": key, "value": value} for key, value in env.items()]
    return {"name": name, "command": command, "args": [*args], "env": variables}


def new_session_params(cwd: str, mcp_servers: Sequence[Members]) -> Members:
    """Return the params of `session/new`. `cwd` must be a whole path."""
    return {"cwd": cwd, "mcpServers": [*mcp_servers]}


def known_session_params(session_id: str, cwd: str, mcp_servers: Sequence[Members]) -> Members:
    """Return the params of `session/load` and of `session/resume`."""
    return {"sessionId": session_id, **new_session_params(cwd, mcp_servers)}


def session_params(session_id: str) -> Members:
    """Return the params of `session/cancel` and of `session/close`."""
    return {"sessionId": session_id}


def prompt_params(session_id: str, *texts: str) -> Members:
    """Return the params of `session/prompt`, with a block for each text."""
    return {"sessionId": session_id, "prompt": [{"type": "text", "text": text} for text in texts]}


def mode_request(session: SessionInfo, mode: str) -> tuple[str, Members]:
    """Return the method and the params that set the mode.

    Where an agent has config options, `session/set_mode` is not for clients that know them.
    """
    if session.mode_option is None:
        return SET_MODE, {"sessionId": session.session_id, "modeId": mode}
    return SET_CONFIG_OPTION, config_option_params(session.session_id, session.mode_option, mode)


def model_params(session: SessionInfo, model: str) -> Members:
    """Return the params of `session/set_model`, for an agent that has no config option for the model."""
    return {"sessionId": session.session_id, "modelId": model}


def config_option_params(session_id: str, option: str, value: str | bool) -> Members:
    """Return the params of `session/set_config_option`."""
    params: Members = {"sessionId": session_id, "configId": option, "value": value}
    return params | {"type": "boolean"} if isinstance(value, bool) else params


def permission_result(option_id: str | None) -> Members:
    """Return the result of `session/request_permission`. None: the turn was cancelled before an answer."""
    if option_id is None:
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


# --- results


def parse_initialize(result: Members) -> AgentCapabilities:
    """Return the agent's capabilities. Raises MessageError if it speaks another version."""
    version = result.get("protocolVersion")
    if version != VERSION:
        raise MessageError(
            f"it speaks version {version!r} of ACP, and Hearth speaks version {VERSION}: update the agent or Hearth"
        )
    capabilities = object_of(result.get("agentCapabilities"))
    sessions = object_of(capabilities.get("sessionCapabilities"))
    info = object_of(result.get("agentInfo"))
    return AgentCapabilities(
        load=capabilities.get("loadSession") is True,
        # An empty object is a yes.
        resume=isinstance(sessions.get("resume"), dict),
        close=isinstance(sessions.get("close"), dict),
        mcp_http=object_of(capabilities.get("mcpCapabilities")).get("http") is True,
        auth_methods=tuple(_auth_methods(result.get("authMethods"))),
        name=text_of(info.get("title")) or text_of(info.get("name")) or "",
        version=text_of(info.get("version")) or "",
    )


def _auth_methods(value: object) -> list[AuthMethod]:
    return [
        AuthMethod(
            id, text_of(each.get("name")) or id, text_of(each.get("description")), text_of(each.get("type")) or "agent"
        )
        for each in objects_of(value)
        if (id := text_of(each.get("id")))
    ]


def parse_session(result: Members, session_id: str | None = None) -> SessionInfo:
    """Return the session that was opened. Give the id of one that was loaded or resumed: its answer has none.

    Raises MessageError if there is no id.
    """
    session_id = session_id or text_of(result.get("sessionId"))
    if not session_id:
        raise MessageError("it opened a session without an id (sessionId)")
    modes = object_of(result.get("modes"))
    models = object_of(result.get("models"))
    found = SessionInfo(
        session_id,
        modes=tuple(_modes(modes.get("availableModes"), "id")),
        current_mode=text_of(modes.get("currentModeId")),
        # Of agents that are older than config options.
        model=text_of(models.get("currentModelId")),
        models=_ids(objects_of(models.get("availableModels")), "modelId"),
    )
    return with_config_options(found, result)


def with_config_options(session: SessionInfo, holder: Members) -> SessionInfo:
    """Return the session with the `configOptions` of a result or an update, if it has any: always all of them."""
    if not isinstance(holder.get("configOptions"), list):
        return session
    options = tuple(each for each in objects_of(holder["configOptions"]) if text_of(each.get("id")))
    session = session._replace(config_options=options)
    mode, model = _select(options, _MODE), _select(options, _MODEL)
    if mode:
        session = session._replace(
            mode_option=mode["id"],
            modes=tuple(_modes(_values(mode), "value")),
            current_mode=text_of(mode.get("currentValue")) or session.current_mode,
        )
    if model:
        names = _ids(_values(model), "value")
        session = session._replace(
            model=text_of(model.get("currentValue")), model_option=text_of(model.get("id")), models=names
        )
    return session


def after_update(session: SessionInfo, update: Members) -> SessionInfo:
    """Return the session as it is after an update; most updates change nothing of it."""
    if update["sessionUpdate"] == "current_mode_update":
        return session._replace(current_mode=update["currentModeId"])
    return with_config_options(session, update) if update["sessionUpdate"] == "config_option_update" else session


def _select(options: Sequence[Members], category: str) -> Members | None:
    """Return the first selector of a category; by its id, where no option has the category."""
    selectors = [each for each in options if each.get("type") == "select"]
    by_category = (each for each in selectors if each.get("category") == category)
    return next(by_category, None) or next((each for each in selectors if each["id"] == category), None)


def _values(option: Members) -> list[Members]:
    """Return the values of a selector, which may be in groups."""
    found = objects_of(option.get("options"))
    return [value for each in found for value in (objects_of(each["options"]) if "options" in each else [each])]


def _ids(entries: Sequence[Members], key: str) -> tuple[str, ...]:
    return tuple(id for each in entries if (id := text_of(each.get(key))))


def _modes(value: object, key: str) -> list[Mode]:
    return [
        Mode(id, text_of(each.get("name")) or id, text_of(each.get("description")))
        for each in objects_of(value)
        if (id := text_of(each.get(key)))
    ]


def parse_turn_end(result: Members) -> TurnEnd:
    """Return the end of a turn. Raises MessageError if its reason is missing."""
    reason = text_of(result.get("stopReason"))
    if not reason:
        raise MessageError("it ended a turn without a reason (stopReason)")
    return TurnEnd(reason, _turn_usage(result))


def _turn_usage(result: Members) -> dict[str, float]:
    counts = object_of(result.get("usage"))
    # Gemini CLI has no `usage`, and its numbers elsewhere.
    older = object_of(object_of(object_of(result.get("_meta")).get("quota")).get("token_count"))
    found = {
        "inputTokens": counts.get("inputTokens", older.get("input_tokens")),
        "cachedInputTokens": counts.get("cachedReadTokens"),
        "outputTokens": counts.get("outputTokens", older.get("output_tokens")),
    }
    return {key: value for key, value in found.items() if is_count(value)}


def describe_error(error: object) -> tuple[int, str]:
    """Return the code and the text of an error response; many agents give the reason in `data` only."""
    found = object_of(error)
    code, text, data = found.get("code"), text_of(found.get("message")), found.get("data")
    members = object_of(data)
    reasons = (data, *(members.get(key) for key in ("details", "message", "error")))
    reason = next((each for each in reasons if isinstance(each, str) and each.strip()), "")
    if reason and reason not in (text or ""):
        text = f"{text}: {reason}" if text else reason
    return code if isinstance(code, int) else 0, text or "an error without a message"


# --- permissions


def parse_permission(params: Members) -> PermissionRequest:
    """Return a permission request. Raises MessageError if it names no session or no tool call."""
    session_id, tool_call = text_of(params.get("sessionId")), object_of(params.get("toolCall"))
    if not session_id or text_of(tool_call.get("toolCallId")) is None:
        raise MessageError("a permission request needs 'sessionId' and 'toolCall' with 'toolCallId'", INVALID_PARAMS)
    options = [
        PermissionOption(id, text_of(each.get("name")) or id, kind)
        for each in objects_of(params.get("options"))
        if (id := text_of(each.get("optionId"))) is not None and (kind := text_of(each.get("kind"))) is not None
    ]
    # An id that two options have could be taken for the other one.
    uses = Counter(option.id for option in options)
    unique = tuple(option for option in options if uses[option.id] == 1)
    return PermissionRequest(session_id, tidied(tool_call, OPTIONAL), unique)


def choose_option(options: Sequence[PermissionOption], allow: bool) -> str | None:
    """Return the id of the option that allows this one use, or rejects it; None where there is no such option.

    Never one that allows more than this use.
    """
    for kind in ("allow_once",) if allow else ("reject_once", "reject_always"):
        for option in options:
            if option.kind == kind:
                return option.id
    return None


def tool_name(tool_call: Members) -> str | None:
    """Return the tool's own name, where the agent gives one; never its title, which is for display."""
    older = object_of(object_of(tool_call.get("_meta")).get("claudeCode")).get("toolName")
    return text_of(tool_call.get("name")) or text_of(older)
