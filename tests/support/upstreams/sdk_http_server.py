"""A server on the official Python SDK, on a port of its own choosing, which it prints: /mcp is Streamable HTTP of both
eras, /sse the HTTP+SSE of 2024-11-05.

    add A B       their sum
    report STEPS  a log message and progress at each step, then "reported"
    ask           "hello NAME", with the name that the client gives when it is asked
    wait          nothing, for ever; `cancelled` then tells how often that was given up
    cancelled     how many calls of `wait` were cancelled
"""

import asyncio
import socket
import sys

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import BaseModel
from starlette.applications import Starlette

server = MCPServer("desk")
given_up = 0


class Name(BaseModel):
    name: str


@server.tool()
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@server.tool()
async def report(steps: int, ctx: Context) -> str:
    """Report."""
    for step in range(steps):
        await ctx.info(f"step {step}")
        await ctx.report_progress(step + 1, steps)
    return "reported"


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask."""
    answer = await ctx.elicit("Who are you?", Name)
    return f"hello {answer.data.name}" if answer.action == "accept" else answer.action


@server.tool()
async def wait() -> str:
    """Wait."""
    global given_up
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        given_up += 1
        raise
    return "never"


@server.tool()
def cancelled() -> int:
    """Count."""
    return given_up


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    streamable = server.streamable_http_app(
        json_response="json" in sys.argv, stateless_http="stateless" in sys.argv, transport_security=open_to_all
    )
    both = [*streamable.routes, *server.sse_app(transport_security=open_to_all).routes]
    app = Starlette(routes=both, lifespan=streamable.router.lifespan_context)
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[listener])


if __name__ == "__main__":
    main()
