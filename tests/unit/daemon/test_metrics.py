"""What `/metrics` says: as Prometheus wants its names, and as docs/http.md has them."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse

from hearth.daemon.http.metrics import METRICS, Row, _registry
from hearth.hub.status import durations
from hearth.upstreams.workload import BOUNDS_SECONDS, CallStats

PAGE = (Path(__file__).parents[3] / "docs/http.md").read_text("utf-8")


def test_the_page_has_every_metric_with_the_words_of_its_help() -> None:
    rows = PAGE.partition("<!-- metrics:")[2].partition("\n\n")[0].splitlines()[3:]
    told = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert told == [
        [f"`{name}`", about.kind, ", ".join(f"`{label}`" for label in about.labels), about.help]
        for name, about in METRICS.items()
    ]


@pytest.mark.parametrize("name", METRICS)
def test_names_are_as_prometheus_wants_them(name: str) -> None:
    about = METRICS[name]
    assert re.fullmatch(r"hearth_[a-z_]+", name)
    assert name.endswith("_total") == (about.kind == "counter")
    # Base units only.
    assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|kib|mib|percent)(_|$)", name)
    assert about.help.endswith(".") and not set(about.labels) & {"tool", "session", "id", "client", "pid"}


def figures(*seconds: float) -> CallStats:
    found = CallStats()
    for each in seconds:
        found.add(each, False)
    return found


@settings(deadline=None)
@given(st.lists(st.floats(min_value=0.0, max_value=1000.0), max_size=50), st.text(max_size=20))
def test_a_histogram_counts_every_call_below_each_bound(seconds: list[float], server: str) -> None:
    name = "hearth_upstream_call_duration_seconds"
    rows: dict[str, list[Row]] = {name: [([server], durations(figures(*seconds)))]}
    [family] = [each for each in parse(generate_latest(_registry(rows)).decode()) if each.name == name]
    found = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    for bound in BOUNDS_SECONDS:
        assert found[f"{name}_bucket", str(bound)] == sum(each <= bound for each in seconds)
    assert found[f"{name}_bucket", "+Inf"] == found[f"{name}_count", None] == len(seconds)
    assert found[f"{name}_sum", None] == pytest.approx(sum(seconds))
    assert family.samples[0].labels["server"] == server
