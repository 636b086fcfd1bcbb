"""Texts without secrets, in whatever form these stand there."""

import base64
import gc
import json
import re
import textwrap
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth import masking
from hearth.masking import Mask

SECRET = 'pä/ss w+ord"1'


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        repr(SECRET),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_a_secret_is_hidden_however_it_is_written(written: str) -> None:
    assert re.sub("[\"'=]", "", Mask([SECRET])(f"before {written} after {written}")) == "before *** after ***"


LONG = "ghp_0123456789abcdefXYZ/+end"


@pytest.mark.parametrize("written", [LONG.upper(), LONG.lower(), LONG.encode().hex(), LONG.encode().hex().upper()])
def test_a_long_secret_is_hidden_in_another_case_and_in_hex(written: str) -> None:
    assert Mask([LONG])(f"before {written} after") == "before *** after"


def test_the_capitals_of_a_short_value_are_a_name() -> None:
    assert Mask(["postgres"])("POSTGRES_URL=postgres") == "POSTGRES_URL=***"


@pytest.mark.parametrize("size", range(8, len(LONG) - 7))
def test_a_long_secret_in_two_lines_is_hidden_also_line_by_line(size: int) -> None:
    mask = Mask([LONG])
    assert mask(f"token {LONG[:size]}") == "token ***"
    assert mask(f"  {LONG[size:]} after") == "  *** after"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n    ", "\\\n", "\\n", " \n"])
@pytest.mark.parametrize("size", [1, 5, 14, len(LONG) - 1])
def test_a_long_secret_that_is_broken_within_one_text_is_hidden_wherever_that_is(size: int, end: str) -> None:
    assert Mask([LONG])(f"a {LONG[:size]}{end}{LONG[size:]} b") == "a *** b"


@pytest.mark.parametrize("encode", [lambda data: base64.b64encode(data).decode(), lambda data: data.hex()])
def test_a_long_secret_that_is_wrapped_as_encoders_do_it_is_hidden_line_by_line(encode: Callable[[bytes], str]) -> None:
    secret = "".join(chr(33 + number % 90) for number in range(200))
    lines = textwrap.wrap(encode(secret.encode()), 76, break_on_hyphens=False)
    assert len(lines) >= 3
    assert {Mask([secret])(line).rstrip("=") for line in lines} == {"***"}


def test_parts_of_a_value_that_is_not_long_are_left_alone() -> None:
    assert Mask(["abcdefghijkl"])("efghijkl and\nefghijkl") == "efghijkl and\nefghijkl"


def test_a_line_that_only_begins_as_a_part_of_a_secret_is_left_alone() -> None:
    assert Mask([LONG])("23456789 bottles") == "23456789 bottles"


def test_of_two_secrets_the_longer_one_goes_first() -> None:
    assert Mask(["abcd", "abcdefgh"])("abcdefgh abcd") == "*** ***"


def test_each_line_of_a_secret_is_hidden() -> None:
    mask = Mask(["-----BEGIN-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END-----\n"])
    assert mask("it said: MIIEvQIBADAN") == "it said: ***"


def test_the_beginning_of_a_secret_at_the_end_of_a_cut_text_is_hidden() -> None:
    mask = Mask(["ghp_0123456789abcdef"])
    assert mask("token ghp_0123456") == "token ***"
    assert mask("token ghp_0123456\N{REPLACEMENT CHARACTER}") == "token ***\N{REPLACEMENT CHARACTER}"
    assert mask("token ghp_012") == "token ghp_012"
    assert mask("token ghp_01234567 more") == "token ghp_01234567 more"


def test_what_is_too_short_to_be_a_secret_is_left_alone() -> None:
    assert Mask(["1", "abc", ""])("1 abc") == "1 abc"


def test_everywhere_counts_each_mask_for_as_long_as_somebody_holds_it() -> None:
    one, two = Mask(["first-secret"]), Mask(["second-secret"])
    assert masking.everywhere("first-secret second-secret") == "*** ***"
    del two
    gc.collect()
    assert masking.everywhere("first-secret second-secret") == "*** second-secret"
    assert one("second-secret") == "second-secret"


@given(st.text(min_size=4, max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_text_shows_a_secret(secret: str, before: str, after: str) -> None:
    shown = Mask([secret])(before + secret + after)
    # Asterisks could only make it whole again if it had some itself.
    assert secret not in shown or "*" in secret


# --- characters that control a terminal

WEAPONS = ("\x00", "\x07", "\x08", "\r", "\x1b", "\x7f", "\x85", "\x9b", "\u061c", "\u200b", "\u200e", "\u2028",
           "\u202a", "\u202e", "\u2066", "\u2069", "\ufeff", "\ud800",
           "\U000e0001", "\U000e0041", "\U000e007f")  # fmt: skip


@pytest.mark.parametrize("weapon", WEAPONS)
def test_each_is_replaced_escaped_and_kept_from_a_terminal(weapon: str) -> None:
    assert masking.replaced(f"a{weapon}b") == "a\ufffdb"
    assert masking.guarded(f"a{weapon}b") == "a\ufffdb"
    assert json.loads(masking.escaped(f'"a{weapon}b"')) == f"a{weapon}b"


def test_text_in_any_script_is_left_as_it_is() -> None:
    text = "naïve\tשלום 日本 🎉\n"
    assert masking.replaced(text) == masking.escaped(text) == masking.guarded(text) == text


def test_a_terminal_gets_the_sequences_of_the_command_line_and_no_other() -> None:
    own = "\x1b[31mhearth:\x1b[0m no\r\x1b[K\r\n\x1b[36m@@ time @@\x1b[0m"
    assert masking.guarded(own) == own
    assert masking.guarded("\x1b[31mred\x1b[2J\x1b[8mhidden\rover") == "\x1b[31mred\ufffd[2J\ufffd[8mhidden\ufffdover"
