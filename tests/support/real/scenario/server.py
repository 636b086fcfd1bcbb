"""The server that the scenario is played with: everything that MCP has, on the official Python SDK, in both eras.

Which era a process speaks is decided by the first request, as with every server on that SDK. It keeps no files.
With the word `arrays` it has one tool more, whose result is an array.
"""

import asyncio
import base64
import sys
import warnings
from typing import Annotated, Any

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import BaseModel, RootModel

# A wait that nobody cancels ends by itself, so that a broken client cannot hang the tests.
WAIT_SECONDS = 30.0
NOTE_URI = "note://board"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LEVELS: list[types.LoggingLevel] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

app = MCPServer(
    "board",
    title="The board",
    version="1.0.0",
    instructions="Ask the board for anything.",
    website_url="https://example.com/board",
    # What is printed on stderr is nobody's business unless something is wrong.
    log_level="WARNING",
)


class State:
    """What one process remembers."""

    def __init__(self) -> None:
        self.note = "empty"
        self.subscribed: set[str] = set()
        self.level: types.LoggingLevel = "debug"
        self.cancelled: asyncio.Queue[str] = asyncio.Queue()
        self.let_go: asyncio.Queue[None] = asyncio.Queue()


state = State()


def is_modern(context: Context[Any, Any]) -> bool:
    """Whether the request is of the era without a handshake."""
    return (context.protocol_version or "") >= "2026"


# --- results


class Sum(BaseModel):
    """The outcome of an addition."""

    sum: int
    terms: list[int]


class Numbers(RootModel[list[int]]):
    """A structured result that is no object, which only the modern era has."""


READ_ONLY = types.ToolAnnotations(title="Adding", read_only_hint=True, open_world_hint=False)


@app.tool(title="Add", annotations=READ_ONLY, meta={"example.com/kind": "arithmetic"})
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b, terms=[a, b])


def count_up(to: int) -> Annotated[types.CallToolResult, Numbers]:
    """The numbers from one, as an array."""
    found = list(range(1, to + 1))
    return types.CallToolResult(content=[types.TextContent(type="text", text=str(found))], structured_content=found)


@app.tool(structured_output=False)
def show() -> list[types.ContentBlock]:
    """One block of every kind of content."""
    pixel = base64.b64encode(PIXEL).decode()
    everyone = types.Annotations(audience=["user", "assistant"], priority=0.5)
    note = types.TextResourceContents(uri=NOTE_URI, mime_type="text/plain", text="embedded")
    return [
        types.TextContent(type="text", text="Grüße, 世界 \u2028 👋", annotations=everyone),
        types.ImageContent(type="image", data=pixel, mime_type="image/png"),
        types.AudioContent(type="audio", data=pixel, mime_type="audio/wav"),
        types.EmbeddedResource(type="resource", resource=note),
        types.ResourceLink(type="resource_link", uri=NOTE_URI, name="board", description="The note"),
    ]


@app.tool()
def fail(reason: str) -> str:
    """Fail, as tools do: by a result."""
    raise ToolError(f"failed: {reason}")


@app.tool()
def refuse(code: int) -> str:
    """Fail as the protocol does: by an error."""
    raise MCPError(code=code, message="refused", data={"why": ["because"]})


@app.tool()
def echo_meta(context: Context[Any, Any]) -> dict[str, Any]:
    """What the request's `_meta` says that is not the protocol's own."""
    meta = dict(context.request_context.meta or {})
    return {"meta": {key: value for key, value in sorted(meta.items()) if key.startswith("example.com/")}}


# --- while a call goes on


@app.tool()
async def count(to: int, context: Context[Any, Any]) -> str:
    """Count, with a progress notice for each number, then wait to be let go.

    The TypeScript clients lose a notice that comes together with the answer.
    """
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"number {number}")
    async with asyncio.timeout(WAIT_SECONDS):
        await state.let_go.get()
    return f"counted to {to}"


@app.tool()
async def let_go() -> str:
    """Let one count end."""
    state.let_go.put_nowait(None)
    return "let go"


@app.tool()
async def wait(key: str, context: Context[Any, Any]) -> str:
    """Say that it waits, then wait for a cancellation."""
    await context.report_progress(0, 1, "waiting")
    try:
        await anyio.sleep(WAIT_SECONDS)
    except anyio.get_cancelled_exc_class():
        state.cancelled.put_nowait(key)
        raise
    return "nobody cancelled"


@app.tool()
async def last_cancelled() -> str:
    """Which wait was cancelled; waits for one."""
    async with asyncio.timeout(WAIT_SECONDS):
        return await state.cancelled.get()


@app.tool()
async def log(text: str, context: Context[Any, Any]) -> str:
    """Log the text at three levels."""
    for level in ("debug", "info", "warning"):
        if is_modern(context) or LEVELS.index(level) >= LEVELS.index(state.level):
            await context.log(level, {"text": text, "level": level}, logger_name="board")
    return "logged"


# --- what changes


@app.tool()
async def write_note(text: str, context: Context[Any, Any]) -> str:
    """Change the note and tell who wants to know."""
    state.note = text
    if is_modern(context):
        await context.notify_resource_updated(NOTE_URI)
    elif NOTE_URI in state.subscribed:
        await context.session.send_resource_updated(NOTE_URI)
    return "written"


def trick() -> str:
    """What was learnt."""
    return "tricked"


@app.tool()
async def learn(context: Context[Any, Any]) -> str:
    """Learn a trick: there is one tool more."""
    app.add_tool(trick)
    await tell_of_tools(context)
    return "learnt"


@app.tool()
async def forget(context: Context[Any, Any]) -> str:
    """Forget it again."""
    app.remove_tool("trick")
    await tell_of_tools(context)
    return "forgotten"


async def tell_of_tools(context: Context[Any, Any]) -> None:
    """That the list has changed, in the era's way."""
    if is_modern(context):
        await context.notify_tools_changed()
    else:
        await context.session.send_tool_list_changed()


# --- questions


class Drink(BaseModel):
    """What to drink."""

    drink: str


class Size(BaseModel):
    """How much of it."""

    litres: float
    iced: bool = False


def ask_drink() -> Elicit[Drink]:
    """The first question."""
    return Elicit("What would you like to drink?", Drink)


def ask_size(drink: Annotated[Drink, Resolve(ask_drink)]) -> Elicit[Size]:
    """The second, which needs the first one's answer."""
    return Elicit(f"How much {drink.drink}?", Size)


@app.tool()
async def order(
    name: str, drink: Annotated[Drink, Resolve(ask_drink)], size: Annotated[Size, Resolve(ask_size)]
) -> str:
    """Ask two questions, one after the other."""
    return f"{name} gets {size.litres} l of {drink.drink}, {'iced' if size.iced else 'plain'}"


def ask_poem(subject: str) -> Sample:
    """The question to the client's model."""
    text = types.TextContent(type="text", text=f"A poem about {subject}")
    return Sample(
        [types.SamplingMessage(role="user", content=text)],
        max_tokens=50,
        system_prompt="You are a poet.",
        temperature=0.5,
        stop_sequences=["END"],
    )


@app.tool()
async def write_poem(subject: str, poem: Annotated[types.CreateMessageResult, Resolve(ask_poem)]) -> str:
    """Let the client's model write."""
    assert isinstance(poem.content, types.TextContent)
    return f"{poem.model} on {subject}: {poem.content.text}"


def ask_roots() -> ListRoots:
    """The question for the client's folders."""
    return ListRoots()


@app.tool()
async def show_roots(roots: Annotated[types.ListRootsResult, Resolve(ask_roots)]) -> list[str]:
    """The client's folders."""
    return [f"{root.name}={root.uri}" for root in roots.roots]


# --- resources, prompts, completion


@app.resource(NOTE_URI, name="board", title="The note", description="What is on the board.", mime_type="text/plain")
def note() -> str:
    """What was written last."""
    return state.note


@app.resource("pixel://one", name="pixel", mime_type="image/png")
def pixel() -> bytes:
    """Bytes."""
    return PIXEL


@app.resource("book://{title}/{page}", name="book", description="A page of a book.", mime_type="text/plain")
def page(title: str, page: str) -> str:
    """Any page of any book."""
    return f"Page {page} of {title}"


@app.prompt(title="A greeting", description="Greets somebody.")
def greet(name: str, language: str = "English") -> list[dict[str, Any]]:
    """Two messages."""
    return [
        {"role": "user", "content": {"type": "text", "text": f"Greet {name} in {language}."}},
        {"role": "assistant", "content": {"type": "text", "text": "With pleasure."}},
    ]


@app.completion()
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion:
    """Languages for the prompt; pages of the book that was chosen before."""
    if isinstance(ref, types.PromptReference):
        values = [name for name in ("English", "Esperanto", "Deutsch") if name.startswith(argument.value)]
        return types.Completion(values=values, total=len(values), has_more=False)
    title = (context.arguments or {}).get("title", "?") if context else "?"
    return types.Completion(values=[f"{title}-{argument.value}{digit}" for digit in (1, 2)], total=9, has_more=True)


# --- the parts of the older era that the SDK leaves to its user


async def subscribe(_: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
    """Remember who wants to hear of a resource."""
    state.subscribed.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(_: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    """Forget it."""
    state.subscribed.discard(str(params.uri))
    return types.EmptyResult()


async def set_level(_: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Remember how much the client wants to hear."""
    state.level = params.level
    return types.EmptyResult()


async def main() -> None:
    """Serve on standard input and output until it ends."""
    if "arrays" in sys.argv[1:]:
        # Not for everybody: in the older era the SDK itself fails the whole list for it.
        app.add_tool(count_up)
    server = app._lowlevel_server
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, options)


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    asyncio.run(main())
