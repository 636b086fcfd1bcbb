"""Pages in a real browser: those of allowed origins use MCP in both eras, and no other brings anything about."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from support.daemon import server
from support.real.browser import Visit, bundle, visit
from support.real.clients import Address
from support.real.home import RealHome
from support.real.sites import forwarded, site

pytestmark = pytest.mark.real

# Counts, so that a page sees progress; its ledger tells what was carried out.
CALL = {"name": "count__put", "arguments": {"key": "by a page", "delay": 200, "steps": 2}}
INTRUSION = {"name": "count__put", "arguments": {"key": "by another page"}}
CHANGE = {"name": "shelf__grow", "arguments": {"name": "more"}}
CHANGE_AGAIN = {"name": "shelf__grow", "arguments": {"name": "even-more"}}


class Place(NamedTuple):
    """A daemon on a port and on its socket with a port in front, a site, and what was carried out."""

    home: RealHome
    port: Address
    front: str  # the URL of the port in front of the socket
    site: int
    ledger: Path

    @property
    def allowed(self) -> str:
        return f"http://app.test:{self.site}"

    @property
    def foreign(self) -> str:
        return f"http://evil.test:{self.site}"

    @property
    def given(self) -> dict[str, Any]:
        """What a page is told that knows the token."""
        return {"url": self.port.url, "token": self.port.headers["Authorization"].removeprefix("Bearer ")}

    def proof(self) -> Visit:
        """A visit that is carried out, so that nobody waits for what could not be."""
        return Visit(self.allowed, "ask", {**self.given, "method": "tools/call", "params": CALL})

    def carried_out(self) -> list[str]:
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [line for line in lines if not line.startswith("started ")]


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle(tmp_path_factory.mktemp("sdk"))


@pytest.fixture
def place(tmp_path: Path, sdk: Path) -> Iterator[Place]:
    ledger = tmp_path / "ledger"
    servers = {"count": server("counting", ledger), "shelf": server("changing")}
    with site(sdk=sdk) as number, RealHome(servers, http_origins=[f"http://app.test:{number}"]) as home:
        port = home.on_port()
        with forwarded(home.scratch.socket) as front:
            yield Place(home, port, f"http://127.0.0.1:{front}", number, ledger)


def test_a_page_of_an_allowed_origin_lists_and_calls_tools_in_both_eras(place: Place) -> None:
    given = {**place.given, "call": CALL}
    modern, legacy = visit(
        Visit(place.allowed, "modern", {**given, "change": CHANGE}),
        Visit(place.allowed, "legacy", {**given, "change": CHANGE_AGAIN}),
    )
    for found in (modern, legacy):
        assert "error" not in found
        assert {"count__put", "shelf__grow"} <= set(found["result"]["tools"])
        *progress, answer = found["result"]["called"]
        assert [message["params"]["progress"] for message in progress] == [1, 2]
        assert answer["result"]["content"][0]["text"] == "put by a page"
    assert modern["result"]["told"] == ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
    assert legacy["result"]["told"] == ["notifications/tools/list_changed"]
    ends = {key: legacy["result"][key] for key in ("version", "accepted", "ended")}
    assert ends == {"version": "2025-11-25", "accepted": 202, "ended": 204}
    assert place.carried_out() == ["put by a page"] * 2


def test_a_page_with_the_official_client_does_the_same(place: Place) -> None:
    given = {**place.given, "call": CALL}
    modern, legacy = visit(
        Visit(place.allowed, "official", {**given, "change": CHANGE, "mode": "auto"}),
        Visit(place.allowed, "official", {**given, "change": CHANGE_AGAIN, "mode": "legacy"}),
    )
    for found, version in ((modern, "2026-07-28"), (legacy, "2025-11-25")):
        assert "error" not in found
        assert found["result"]["version"] == version
        assert {"count__put", "shelf__grow"} <= set(found["result"]["tools"])
        assert (found["result"]["progress"], found["result"]["text"]) == ([1, 2], "put by a page")
        assert found["result"]["told"] == ["notifications/tools/list_changed"]
    assert place.carried_out() == ["put by a page"] * 2


def test_a_page_that_lacks_the_token_is_told_so(place: Place) -> None:
    [found] = visit(Visit(place.allowed, "ask", {"url": place.port.url, "method": "tools/list"}))
    assert (found["result"]["status"], found["result"]["wants"]) == (401, 'Bearer realm="hearth"')
    assert "hearth token show" in found["result"]["body"]["error"]


def test_a_page_from_the_internet_comes_in_once_its_user_allows_it(place: Place) -> None:
    # The browser is told to take the site's address for a public one, and its origin for a secure one.
    options = [
        f"--ip-address-space-overrides=127.0.0.1:{place.site}=public",
        f"--unsafely-treat-insecure-origin-as-secure={place.allowed}",
    ]
    [refused] = visit(place.proof(), options=options)
    assert "Failed to fetch" in refused["error"]
    assert place.carried_out() == []
    [found] = visit(place.proof(), options=options, permissions=["local-network-access"])
    assert found["result"]["status"] == 200
    assert place.carried_out() == ["put by a page"]


def test_a_page_may_use_the_browser_s_own_event_source_on_the_socket(place: Place) -> None:
    given = {"url": f"{place.front}/sse", "call": CALL}
    refused, found = visit(Visit(place.foreign, "old", given), Visit(place.allowed, "old", given))
    assert "the stream was refused" in refused["error"]
    assert found["result"]["version"] == "2024-11-05"
    assert found["result"]["called"]["result"]["content"][0]["text"] == "put by a page"
    assert place.carried_out() == ["put by a page"]


def test_a_page_of_another_origin_is_refused_even_with_the_token(place: Place) -> None:
    given = {**place.given, "call": INTRUSION, "change": CHANGE}
    asking = {"method": "tools/call", "params": INTRUSION}
    found = visit(
        Visit(place.foreign, "modern", given),
        Visit(place.foreign, "legacy", given),
        Visit(place.foreign, "ask", {**asking, **place.given}),
        Visit(place.foreign, "ask", {**asking, "url": f"{place.front}/mcp"}),
        place.proof(),
    )
    assert ["Failed to fetch" in each["error"] for each in found[:-1]] == [True] * 4
    assert place.carried_out() == ["put by a page"]


def test_what_a_browser_sends_without_asking_brings_nothing_about(place: Place) -> None:
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}}
    envelope = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{key}": value for key, value in envelope.items()}
    bodies = {
        "initialize": {"id": 1, "method": "initialize", "params": opening},
        "tools/call": {"id": 1, "method": "tools/call", "params": {**INTRUSION, "_meta": meta}},
    }
    messages = {name: json.dumps({"jsonrpc": "2.0", **body}) for name, body in bodies.items()}
    bases = [place.front, place.port.url.removesuffix("/mcp")]
    slips = [Visit(place.foreign, "slip", {"base": base, "messages": messages}) for base in bases]
    for base, each in zip(bases, visit(*slips, place.proof()), strict=False):
        # Sent they are; what comes back no page can read.
        assert set(each["result"].values()) <= {"opaque", "sent", "refused"}
        # What came for a picture or a script the browser keeps even from the one who drives it.
        asked = [name for name in each["result"] if not name.endswith(("picture", "script"))]
        assert [status for _, url, status in each["answers"] if url.startswith(base)] == [403] * len(asked)
    assert place.carried_out() == ["put by a page"]


def test_a_name_that_was_made_to_mean_this_machine_is_refused(place: Place) -> None:
    ports = [urlsplit(place.port.url).port, urlsplit(place.front).port]
    site = f"http://127.0.0.1:{place.site}"
    asking = {**place.given, "url": "/mcp", "method": "tools/call", "params": INTRUSION}
    # To the browser each of them is of the same origin as what it asks. Newer ones protect their users from that by
    # themselves, unless they are told not to.
    *found, _ = visit(
        *(Visit(f"http://evil.test:{port}", "ask", asking, copied_from=site) for port in ports),
        place.proof(),
        options=["--disable-features=LocalNetworkAccessChecks"],
    )
    for each in found:
        assert each["result"]["status"] == 403
        assert "is not this machine's" in each["result"]["body"]["error"]
    assert place.carried_out() == ["put by a page"]
