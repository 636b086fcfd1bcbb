"""Names of tools as clients see them: short, plain, stable, and never two under one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.mcp import tool_names

PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_a_plain_name_is_joined_and_left_alone() -> None:
    assert tool_names.exposed("git", "git_log") == "git__git_log"


@pytest.mark.parametrize("tool", ["a.b", "a b", "a/b", "é", "", "\ud800"])
def test_what_clients_refuse_is_replaced_and_gets_a_hash_of_the_original(tool: str) -> None:
    name = tool_names.exposed("server!", tool)
    assert PLAIN.fullmatch(name)
    assert name.startswith("server___")
    assert name == tool_names.exposed("server!", tool)


def test_a_name_of_exactly_the_limit_is_left_alone_and_one_more_is_cut() -> None:
    fits = "t" * (tool_names.NAME_LIMIT - len("s__"))
    assert tool_names.exposed("s", fits) == f"s__{fits}"
    longer = tool_names.exposed("s", fits + "t")
    assert len(longer) == tool_names.NAME_LIMIT
    assert longer != tool_names.exposed("s", fits + "u")


def test_names_that_differ_only_in_what_is_replaced_stay_apart() -> None:
    assert len({tool_names.exposed("s", tool) for tool in ("a.b", "a b", "a_b", "a/b")}) == 4


def test_a_server_s_prefix_is_what_its_unchanged_names_begin_with() -> None:
    assert tool_names.exposed("my-server", "x").startswith(tool_names.prefix("my-server"))


@given(st.text(min_size=1), st.text())
def test_a_server_may_have_every_name_that_its_tools_are_given(server: str, tool: str) -> None:
    assert tool_names.may_have(server, tool_names.exposed(server, tool))
    assert tool_names.may_have(server, tool_names.hashed(server, tool))


@pytest.mark.parametrize("length", [1, 53, 54, 55, 56, 62, 63, 64, 65, 200])
def test_a_server_with_a_name_of_any_length_may_have_its_own_tools_and_no_other_server_s(length: int) -> None:
    server = "a" * length
    assert tool_names.may_have(server, tool_names.exposed(server, "echo-with-a-long-name"))
    assert not tool_names.may_have(server, tool_names.exposed("b", "echo"))


@given(st.text(min_size=1), st.text())
def test_every_name_is_one_that_clients_take(server: str, tool: str) -> None:
    assert PLAIN.fullmatch(tool_names.exposed(server, tool))
    assert PLAIN.fullmatch(tool_names.hashed(server, tool))
