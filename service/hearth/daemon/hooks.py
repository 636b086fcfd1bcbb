"""Hook frames: `hook` of `hearth hook`, answered by `hookAnswer`. docs/protocol.md has their keys."""

from typing import Any

from hearth.daemon import control
from hearth.daemon.control import Answer, ControlApi

ANSWER_FRAME = "hookAnswer"


async def answer_frame(api: ControlApi, header: dict[str, Any], payload: bytes, pid: int | None) -> Answer:
    """Return the frame that answers a hook: exit code, standard error if any, and standard output as the payload."""
    answer: dict[str, Any] = {"type": ANSWER_FRAME, "re": control.integer(header, "seq")}
    client, event = control.string(header, "client") or "", control.string(header, "event") or ""
    token, agent = control.string(header, "roleToken"), control.string(header, "agentId")
    found = await api.cmd_hook(client, event, payload, pid, token, agent)
    if found is None:
        # The hook has seen a policy file, and looks again: if the file is still there, the call is denied.
        return {**answer, "policy": False, "exitCode": 0}, b""
    if found.stderr:
        answer["stderr"] = found.stderr.decode("utf-8", "replace")[: control.SENTENCE_LIMIT]
    return {**answer, "exitCode": found.exit_code}, found.stdout
