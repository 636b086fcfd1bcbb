"""Previews of large tool results."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from hearth.mcp import result_previews, versions
from hearth.mcp.result_previews import JSON, NOTICE_BYTES, SMALLEST_PREVIEW_BYTES, TEXT, Part

URI = "hearth-result:///" + "0" * 32
LIMIT = 4096
NO_SCHEMA: Callable[[], bool] = lambda: False  # noqa: E731


def text(words: str, **more: object) -> dict[str, object]:
    return {"type": "text", "text": words, **more}


def plan(limit: int = LIMIT, has_schema: bool = False, **result: object) -> result_previews.Preview | None:
    return result_previews.plan(json.dumps(result).encode(), limit, lambda: has_schema)


def shortened(limit: int = LIMIT, version: str = versions.NEWEST_LEGACY, **result: object) -> dict[str, Any]:
    found = plan(limit, **result)  # type: ignore[arg-type]
    assert found is not None
    return json.loads(found.write(URI, version))


def parts_of(shown: str) -> list[str]:
    """Split a preview into head, notice and tail."""
    parts = re.split(r"(\n\n\[[^\]]*\]\n\n)", shown)
    assert len(parts) == 3
    return parts


def test_a_long_text_becomes_head_notice_and_tail_within_the_limit_and_a_link() -> None:
    words = "".join(f"{number:07}\n" for number in range(10_000))
    block, link = shortened(content=[text(words)])["content"]
    shown = block["text"]
    assert len(shown.encode()) <= LIMIT
    head, notice, tail = parts_of(shown)
    assert words.startswith(head)
    assert words.endswith(tail)
    assert len(head) > len(tail) > 500
    left_out = len(words) - len(head) - len(tail)
    assert f"{left_out} of {len(words)} bytes" in notice
    assert URI in notice
    assert len(notice.encode()) <= NOTICE_BYTES
    assert (link["type"], link["uri"], link["mimeType"]) == ("resource_link", URI, TEXT)
    assert link["name"]


def test_the_notice_of_the_largest_text_fits_into_its_room() -> None:
    words = ["x" * 5000] * 2
    shown = result_previews._shortened(
        result_previews._Cut({}, b"x" * 5000, SMALLEST_PREVIEW_BYTES), f"{URI} (part {len(words) * 10**6})"
    )
    # Ten digits for each number instead of four.
    assert len(shown.encode()) + 12 <= SMALLEST_PREVIEW_BYTES


@pytest.mark.parametrize("letter", ["x", "é", "€", "🔥"])
@pytest.mark.parametrize("shift", range(4))
def test_no_character_is_cut_in_two(letter: str, shift: int) -> None:
    words = "a" * shift + letter * 5000
    shown = shortened(content=[text(words)])["content"][0]["text"]
    head, _, tail = parts_of(shown)
    assert "\N{REPLACEMENT CHARACTER}" not in shown
    assert words.startswith(head)
    assert words.endswith(tail)
    assert len(shown.encode()) <= LIMIT


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT])
def test_a_text_within_the_limit_is_left_alone(size: int) -> None:
    assert plan(content=[text("x" * size)]) is None
    assert plan(content=[text("x" * (LIMIT + 1))]) is not None


def test_a_client_of_an_older_revision_gets_the_uri_in_the_text_only() -> None:
    [block] = shortened(version="2025-03-26", content=[text("x" * 9000)])["content"]
    assert URI in block["text"]


def test_the_parts_are_the_texts_as_the_server_wrote_them() -> None:
    raw = rb'"lone \ud800 and \u00e9 ' + b"x" * 9000 + b'"'
    found = result_previews.plan(b'{"content":[{"type":"text","text":' + raw + b"}]}", LIMIT, NO_SCHEMA)
    assert found is not None
    assert found.parts == (Part(TEXT, raw),)
    json.loads(found.write(URI, versions.NEWEST_LEGACY))
    read = result_previews.read_result(URI, found.parts)
    assert raw in read
    [content] = json.loads(read)["contents"]
    assert (content["uri"], content["mimeType"]) == (URI, TEXT)


def test_errors_annotations_and_other_blocks_stay() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "A" * 20_000}
    long = text("x" * 9000, annotations={"priority": 1})
    found = shortened(content=[image, long, text("short")], isError=True, _meta={"a": 1})
    assert found["isError"] is True
    assert found["_meta"] == {"a": 1}
    assert found["content"][0] == image
    assert found["content"][1]["annotations"] == {"priority": 1}
    assert found["content"][2] == text("short")
    assert plan(content=[image]) is None


def test_several_texts_share_the_limit_and_short_ones_stay_whole() -> None:
    words = ["a" * 300, "b" * 9000, "c" * 7000, "d" * 100]
    found = plan(content=[text(each) for each in words])
    assert found is not None
    assert [json.loads(part.text) for part in found.parts] == words[1:3]
    shown = [block["text"] for block in json.loads(found.write(URI, "2025-03-26"))["content"]]
    assert (shown[0], shown[3]) == (words[0], words[3])
    assert "(part 1)" in shown[1]
    assert "(part 2)" in shown[2]
    assert sum(len(each.encode()) for each in shown) <= LIMIT


def test_very_many_texts_keep_a_preview_each() -> None:
    shown = shortened(content=[text("x" * 5000)] * 50)["content"][:50]
    assert {len(block["text"]) // 100 for block in shown} <= {8, 9, 10}


def test_large_structured_content_goes_to_the_resource_unless_a_schema_demands_it() -> None:
    structured = {"rows": ["x" * 9000]}
    found = plan(content=[text("x" * 9000)], structuredContent=structured)
    assert found is not None
    assert [part.mime_type for part in found.parts] == [TEXT, JSON]
    assert json.loads(json.loads(found.parts[1].text)) == structured
    assert "structuredContent" not in json.loads(found.write(URI, versions.NEWEST_MODERN))
    kept = plan(has_schema=True, content=[text("x" * 9000)], structuredContent=structured)
    assert kept is not None
    assert json.loads(kept.write(URI, versions.NEWEST_MODERN))["structuredContent"] == structured
    assert plan(has_schema=True, content=[], structuredContent=structured) is None


def test_structured_content_without_text_is_shown_by_its_head_and_tail() -> None:
    block, link = shortened(content=[], structuredContent={"rows": ["x" * 9000]})["content"]
    assert block["text"].startswith('{"rows": ["xxx')
    assert block["text"].endswith('xxx"]}')
    assert len(block["text"]) <= LIMIT
    assert link["mimeType"] == JSON


def test_small_structured_content_stays() -> None:
    assert shortened(content=[text("x" * 9000)], structuredContent={"a": 1})["structuredContent"] == {"a": 1}


@pytest.mark.parametrize("result", [b"[]", b"7", b'{"content":7}', b'{"content":[7,{"type":"text","text":7}]}', b"{}"])
def test_a_result_of_another_shape_is_left_alone(result: bytes) -> None:
    assert result_previews.plan(result, 1, NO_SCHEMA) is None
