"""`POST /hooks/EVENT?client=CLIENT`: a client's hook by HTTP. Loaded with the first request to it.

The body is the JSON that the client gives to a hook; the answer is the JSON that the client expects from one, so that
Claude Code's hooks of type `http` can be pointed here. The header `Hearth-Exit-Code` has the exit code that a hook
process would have. The guard of `app` has checked the token or the peer.
"""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hearth.daemon.http import admission, callers

if TYPE_CHECKING:
    from hearth.daemon.http.app import Request

PREFIX = b"/hooks/"
# Headers with the caller's role token, or an agent's, and with the agent that the caller claims to be.
ROLE_TOKEN = "hearth-role-token"  # the name of a header
AGENT = "x-hearth-agent"


async def serve(request: "Request") -> None:
    """Serve one request, whatever its method and path."""
    if request.method != "POST":
        await request.refuse(405, f"{request.method} means nothing here", [(b"allow", b"POST")])
        return
    try:
        admission.check_body(request)
    except admission.Rejected as exc:
        await request.refuse(exc.status, str(exc))
        return
    body = await admission.read_body(request)
    if body is not None:
        await _answer(request, body)


async def _answer(request: "Request", body: bytes) -> None:
    event = unquote(request.raw_path.removeprefix(PREFIX).decode("latin-1"))
    client, token, agent = request.first("client") or "", *map(request.headers.get, (ROLE_TOKEN, AGENT))
    control, pid = request.app.services.control, await callers.pid_of(request)
    decision = asyncio.ensure_future(control.cmd_hook(client, event, body, pid, token, agent))
    # A caller that has gone waits for no approval.
    request.connection.on_lost.append(decision.cancel)
    try:
        found = await decision
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return
    finally:
        if decision.cancel in request.connection.on_lost:
            request.connection.on_lost.remove(decision.cancel)
    if found is None:
        await request.answer(200, b"", [(b"hearth-exit-code", b"0")])
    elif found.stderr:
        # Neither the client nor the event has a form of its own for a deny.
        await request.refuse(400, found.stderr.decode().strip(), [(b"hearth-exit-code", b"%d" % found.exit_code)])
    else:
        await request.answer(200, found.stdout, [(b"hearth-exit-code", b"%d" % found.exit_code)])
