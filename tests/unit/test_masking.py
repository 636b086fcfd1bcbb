"""Texts without secrets, in whatever form these stand there."""

import base64
import gc
import json
import re
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
    shown = Mask([SECRET])(f"before {written} after {written}")
    assert re.sub("[\"'=]", "", shown) == "before *** after ***"


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
    mask = Mask([secret])
    shown = mask(before + secret + after)
    # Asterisks could only make it whole again if it had some itself.
    assert secret not in shown or "*" in secret
