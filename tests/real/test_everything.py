"""The reference server that has everything, with a client that can do everything: what it asks and tells arrives."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.real.clients import PYTHON_AUTO, PYTHON_LEGACY, TYPESCRIPT_V1, TYPESCRIPT_V2_AUTO, Player, play
from support.real.comparison import assert_same, comparable
from support.real.home import RealHome
from support.real.installation import node_server
from support.real.scenario.python_client import Document
from support.real.servers import PROMPTS, RESOURCES, TOOLS, call, names, text

pytestmark = pytest.mark.real
PLAYERS = {
    "python-auto": PYTHON_AUTO,
    "python-legacy": PYTHON_LEGACY,
    "typescript-auto": TYPESCRIPT_V2_AUTO,
    "typescript-legacy": TYPESCRIPT_V1,
}
DOCUMENT = "demo://resource/static/document/features.md"
LINK = "demo://resource/dynamic/text/1"
FORM = "Please provide inputs for the following fields:"
URL = "Please open the link to complete this action."
# What the server makes up by chance or by the clock, and when it does.
CHANCY = ("linked resource", "logging", "no more logging", "first roots", "roots")


@pytest.fixture(scope="module")
def home() -> Iterator[RealHome]:
    """The server, once for each client."""
    command, *words = node_server("everything")
    with RealHome({name: {"command": command, "args": words} for name in PLAYERS}) as place:
        yield place


@pytest.fixture(scope="module", params=PLAYERS)
def name(request: pytest.FixtureRequest) -> str:
    """A client's name, and that of its server."""
    return str(request.param)


@pytest.fixture(scope="module")
def direct(home: RealHome, name: str) -> Document:
    """What the client sees without Hearth."""
    return perform(PLAYERS[name], home.direct(name, home.folder(name)), home.folder(name))


@pytest.fixture(scope="module")
def bridged(home: RealHome, name: str) -> Document:
    """What it sees through it."""
    return perform(PLAYERS[name], home.bridged(name, home.folder(name)), home.folder(name))


def perform(player: Player, command: Any, folder: Path) -> Document:
    """Everything that the server can do."""
    return play(player, command, {"patience_seconds": 20, "answers": answers(folder), "steps": steps()})


def answers(folder: Path) -> dict[str, Any]:
    """What the client's user, model and folders are."""
    return {
        "elicitation/create": {
            FORM: {"action": "accept", "content": {"name": "Ada", "check": True}},
            URL: {"action": "accept"},
        },
        "sampling/createMessage": {
            "role": "assistant",
            "content": {"type": "text", "text": "Roses are red"},
            "model": "poet-1",
            "stopReason": "endTurn",
        },
        "roots/list": {"roots": [{"uri": folder.as_uri(), "name": folder.name}]},
    }


def steps() -> list[dict[str, Any]]:
    """What is done with it."""
    prompt = {"type": "ref/prompt", "name": "completable-prompt"}
    return [
        TOOLS,
        # First: the server asks some time after its start if nobody did; the call that a modern client has in flight
        # then becomes its question, and what it would have told of its progress meanwhile is dropped.
        # Twice, because the answer moves it to a process for this client's folder, which asks once more.
        call("first roots", "get-roots-list"),
        call("roots", "get-roots-list"),
        RESOURCES,
        {"name": "templates", "do": "list", "what": "templates"},
        PROMPTS,
        call("echo", "echo", message="Grüße"),
        call("sum", "get-sum", a=2, b=3),
        call("structured", "get-structured-content", location="Chicago"),
        call("image", "get-tiny-image"),
        call("annotated", "get-annotated-message", messageType="error", includeImage=True),
        call("links", "get-resource-links", count=2),
        call("wrong", "get-sum", a="two"),
        # Two of three: the TypeScript clients lose a notice that comes together with the answer.
        {
            **call("progress", "trigger-long-running-operation", duration=0.3, steps=3),
            "progress": 3,
            "await": {"progress": 2},
        },
        {"name": "document", "do": "read", "uri": DOCUMENT},
        {"name": "linked resource", "do": "read", "uri": LINK},
        {**call("updates", "toggle-subscriber-updates"), "watch": {"resource": DOCUMENT}, "await": {"notices": 1}},
        call("no more updates", "toggle-subscriber-updates"),
        {**call("logging", "toggle-simulated-logging"), "level": "debug", "await": {"logs": 1}},
        call("no more logging", "toggle-simulated-logging"),
        {"name": "simple prompt", "do": "prompt", "prompt": "simple-prompt", "arguments": {}},
        {"name": "prompt", "do": "prompt", "prompt": "args-prompt", "arguments": {"city": "Rome"}},
        {"name": "departments", "do": "complete", "ref": prompt, "argument": {"name": "department", "value": "S"}},
        {
            "name": "members",
            "do": "complete",
            "ref": prompt,
            "argument": {"name": "name", "value": "D"},
            "context": {"department": "Sales"},
        },
        call("elicitation", "trigger-elicitation-request"),
        call("url", "trigger-url-elicitation", url="https://example.com/", message=URL, elicitationId="e1"),
        call("sampling", "trigger-sampling-request", prompt="fire", maxTokens=20),
    ]


def test_everything_is_through_hearth_as_it_is_without(bridged: Document, direct: Document) -> None:
    assert_same(settled(bridged), settled(direct))


def settled(document: Document) -> Document:
    """Without what depends on chance, and without tools that work only as tasks, which Hearth does not offer."""
    steps = {name: dict(seen) for name, seen in document["steps"].items() if name not in CHANCY}
    for seen in steps.values():
        seen.pop("logs", None)
        seen.pop("progress", None)
        # It asks for roots out of the blue, some time after its start.
        questions = [question for question in seen.pop("questions", ()) if "roots/list" not in question]
        seen.update({"questions": questions} if questions else {})
    tools = steps["tools"]["result"]["tools"]
    tools[:] = [tool for tool in tools if tool.get("execution", {}).get("taskSupport") != "required"]
    return {"steps": steps}


def test_all_tools_are_offered_to_a_client_that_can_do_everything(bridged: Document) -> None:
    assert {
        "trigger-elicitation-request",
        "trigger-url-elicitation",
        "trigger-sampling-request",
        "get-roots-list",
    } <= names(bridged["steps"]["tools"], "tools")


def test_progress_and_updates_and_logs_arrive(bridged: Document) -> None:
    seen = bridged["steps"]
    assert [progress for progress, *_ in seen["progress"]["progress"]][:2] == [1, 2]
    assert seen["updates"]["notices"] == [{"method": "notifications/resources/updated", "uri": DOCUMENT}]
    assert any("message" in str(log["data"]) for log in seen["logging"]["logs"])
    assert not seen["no more logging"]["result"].get("isError")


def test_resources_that_were_linked_and_never_listed_can_be_read(bridged: Document) -> None:
    assert "Resource 1" in bridged["steps"]["linked resource"]["result"]["contents"][0]["text"]


def test_its_questions_are_answered(home: RealHome, name: str, bridged: Document) -> None:
    seen = comparable(bridged)
    assert "Ada" in str(seen["elicitation"]["result"])
    assert "completed the URL elicitation" in text(seen["url"])
    assert seen["url"]["questions"][0]["elicitation/create"]["url"] == "https://example.com/"
    assert "Roses are red" in text(seen["sampling"])
    assert home.folder(name).as_uri() in text(seen["roots"])
