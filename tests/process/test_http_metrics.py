"""`/metrics`: read by Prometheus' own parsers, and held against what `hearth status` says."""

import concurrent.futures
import contextlib
import sys

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from support.daemon import Scratch, server
from support.http.clients import HttpClient, LegacyHttp, ModernHttp, bearer, port_of
from support.kernel import until

OPENMETRICS = "application/openmetrics-text; version=1.0.0"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str, openmetrics: bool = False) -> Samples:
    """Each sample by its name and labels."""
    families = list((parse_openmetrics if openmetrics else parse_text)(text))
    assert all(family.documentation for family in families if family.name.startswith("hearth_"))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def scrape(scratch: Scratch) -> Samples:
    got = HttpClient(scratch).request("GET", path="/metrics")
    assert got.status == 200
    return read(got.text())


@pytest.fixture
def home(scratch: Scratch) -> Scratch:
    scratch.serve(
        {"echo": server("echo"), "count": server("counting", scratch.home / "ledger"), "dying": server("dying")},
        outbound_limit=1_000_000,
    )
    return scratch


def test_it_says_what_the_status_says(home: Scratch) -> None:
    lines, frames, far = home.lines(), home.frames(), LegacyHttp(home)
    lines.initialize()
    frames.initialize()
    far.open()
    for number in range(3):
        lines.call("echo__echo", text=str(number))
    assert "error" in frames.call("echo__add", a=1)
    id = lines.begin_call("count__read", key="k", delay=60_000)
    until(lambda: home.upstream("count")["instances"][0]["inFlight"] == 1, "the call is with its server")
    found, status = scrape(home), home.status()
    assert value(found, "hearth_build_info", version=status["version"]) == 1
    assert 0 < value(found, "hearth_uptime_seconds") <= status["uptimeSeconds"]
    for wire, era in (("lines", "legacy"), ("frames", "legacy"), ("http", "legacy"), ("http", "modern")):
        there = [each for each in status["sessions"] if (each["wire"], each["era"]) == (wire, era)]
        assert value(found, "hearth_sessions", wire=wire, era=era) == len(there)
    assert value(found, "hearth_connections", wire="lines") == value(found, "hearth_connections", wire="frames") == 1
    assert value(found, "hearth_connections", wire="http") >= 1
    assert value(found, "hearth_calls_in_flight") == sum(each["inFlight"] for each in status["sessions"]) == 1
    assert value(found, "hearth_config_valid") == 1
    for entry in status["upstreams"]:
        name = entry["name"]
        calls = {one: value(found, "hearth_upstream_calls_total", server=name, outcome=one) for one in ("ok", "error")}
        assert calls == {"ok": entry["calls"] - entry["errors"], "error": entry["errors"]}
        assert value(found, "hearth_upstream_call_duration_seconds_count", server=name) == entry["calls"]
        assert value(found, "hearth_upstream_state", server=name, state=entry["state"]) == 1
        assert sum(number for (metric, labels), number in found.items()
                   if metric == "hearth_upstream_state" and ("server", name) in labels) == 1  # fmt: skip
        assert value(found, "hearth_upstream_processes", server=name) == len(entry["pids"])
        assert value(found, "hearth_upstream_restarts_total", server=name) == entry["restarts"]
        assert (value(found, "hearth_upstream_memory_bytes", server=name) > 0) == bool(entry["pids"])
        if entry["tools"] is not None:
            assert value(found, "hearth_upstream_listed", server=name, list="tools") == entry["tools"]
    assert value(found, "hearth_upstream_calls_total", server="echo", outcome="ok") == 3
    assert value(found, "hearth_upstream_calls_total", server="echo", outcome="error") == 1
    assert value(found, "hearth_upstream_calls_in_flight", server="count") == 1
    lines.notify("notifications/cancelled", {"requestId": id})
    until(lambda: value(scrape(home), "hearth_calls_in_flight") == 0, "nothing is in flight")


def test_times_of_calls_are_a_histogram(home: Scratch) -> None:
    client = home.lines().initialized()
    client.call("count__read", key="slow", delay=150)
    client.call("echo__echo", text="quick")
    found = scrape(home)
    bucket = "hearth_upstream_call_duration_seconds_bucket"
    assert value(found, bucket, server="count", le="0.1") == 0
    assert value(found, bucket, server="count", le="+Inf") == 1
    assert value(found, "hearth_upstream_call_duration_seconds_sum", server="count") >= 0.15
    numbers = [number for (name, labels), number in found.items() if name == bucket and ("server", "echo") in labels]
    assert numbers == sorted(numbers) and numbers[-1] == 1


def test_a_scraper_gets_the_form_that_it_asks_for(home: Scratch) -> None:
    home.lines().call("echo__echo", text="x")
    client = HttpClient(home)
    for accept in ("", "*/*", "text/plain", "application/json", "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"):
        got = client.request("GET", path="/metrics", headers={"Accept": accept})
        assert (got.status, got.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        plain = read(got.text())
    got = client.request("GET", path="/metrics", headers={"Accept": f"{OPENMETRICS},text/plain;version=0.0.4;q=0.5"})
    assert got.headers["content-type"].startswith(OPENMETRICS)
    assert {name for name, _ in read(got.text(), openmetrics=True)} == {name for name, _ in plain}
    head = client.request("HEAD", path="/metrics")
    assert (head.status, head.text()) == (200, "") and int(head.headers["content-length"]) > 1000
    assert client.request("POST", {}, path="/metrics").status == 405


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_the_daemon_s_own_process_is_in_it(home: Scratch) -> None:
    found = scrape(home)
    assert value(found, "process_resident_memory_bytes") > 1e6
    assert value(found, "process_open_fds") > 5


def test_what_goes_wrong_is_counted(home: Scratch) -> None:
    found = scrape(home)
    assert value(found, "hearth_config_reloads_total", outcome="refused") == 0
    home.write_config("idle_timeout = nonsense\n")
    assert home.control().control("reload")[0]["ok"] is False
    found = scrape(home)
    # The file's own change may have been noticed as well.
    assert value(found, "hearth_config_reloads_total", outcome="refused") >= 1
    assert value(found, "hearth_config_valid") == 0
    stuck = home.lines().initialized()
    big = "x" * 100_000
    # It may be dropped before it has said everything.
    with contextlib.suppress(ConnectionError):
        for number in range(40):
            stuck.begin_call("echo__echo", id=number, text=big)
    until(lambda: value(scrape(home), "hearth_readers_dropped_total") == 1, "who does not read is dropped")


def test_a_server_that_dies_is_counted_as_restarted(home: Scratch) -> None:
    client = home.lines().initialized()
    for _ in range(2):
        client.call("dying__die")
    until(lambda: home.upstream("dying")["restarts"] >= 1, "it was started again")
    found, entry = scrape(home), home.upstream("dying")
    assert 1 <= value(found, "hearth_upstream_restarts_total", server="dying") <= entry["restarts"]


def test_nothing_is_told_of_what_was_called_with_what(home: Scratch) -> None:
    home.lines().call("echo__echo", text="hush")
    ModernHttp(home).call("echo__echo", text="hush")
    text = HttpClient(home).request("GET", path="/metrics").text()
    assert "hush" not in text and "echo__echo" not in text
    assert not any(each["id"] in text for each in home.status()["sessions"])


def test_many_may_scrape_at_once(home: Scratch) -> None:
    home.lines().call("echo__echo", text="x")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: scrape(home), range(64)))
    assert all(value(each, "hearth_upstream_calls_total", server="echo", outcome="ok") == 1 for each in found)
    assert value(scrape(home), "hearth_http_exchanges") == 0


def test_over_tcp_it_needs_the_token(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    scratch.start("--http", "127.0.0.1:0")
    client = HttpClient(scratch, "/metrics", port_of(scratch))
    assert client.request("GET").status == 401
    assert read(client.request("GET", headers=bearer(scratch)).text())


def test_without_its_package_everything_else_is_served(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    code = "import sys; sys.modules['prometheus_client'] = None"
    broken = f"{code}; from hearth.daemon.main import main; sys.exit(main(sys.argv[1:]))"
    scratch.start(command=(sys.executable, "-I", "-c", broken))
    got = HttpClient(scratch).request("GET", path="/metrics")
    assert (got.status, "hearth logs" in got.json()["error"]) == (500, True)
    assert ModernHttp(scratch).call("echo__echo", text="on").status == 200
