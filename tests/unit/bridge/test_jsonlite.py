"""Headers, read and written without the json package, agree with it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.bridge import jsonlite
from hearth.errors import FrameError
from hearth.wire.frames import FrameDecoder

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), values, max_size=5), st.booleans())
def test_reading_agrees_with_the_json_package(fields: dict[str, Any], compact: bool) -> None:
    text = json.dumps(fields, separators=(",", ":") if compact else None)
    assert jsonlite.read(text.encode()) == json.loads(text)


@given(st.binary(max_size=40))
def test_whatever_is_no_header_is_a_frame_error(data: bytes) -> None:
    try:
        found = jsonlite.read(data)
    except FrameError:
        return
    assert found == json.loads(data)


@pytest.mark.parametrize("text", ["plain", 'a "quoted" path', "\\back\\slash", "new\nline", "grün", "\udcff"])
def test_hello_carries_any_text(text: str) -> None:
    [(header, _)] = FrameDecoder().receive_data(jsonlite.hello({"cwd": text, "role": None, "mode": ""}, 7, ("s", "x")))
    fields = json.loads(header)
    header.decode("ascii")
    assert fields["cwd"] == text.replace("\udcff", "\ufffd")
    assert (fields["pid"], fields["resume"]) == (7, {"sessionId": "s", "secret": "x"})
    assert not {"role", "mode"} & set(fields)
