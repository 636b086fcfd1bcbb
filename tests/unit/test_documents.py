"""The pages for people are whole, and lead where they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them: small letters, no punctuation, dashes for blanks."""
    headings = re.findall(r"^#+ +(.+?) *$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_both_sides_of_a_merge_in_it(page: str) -> None:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if re.match(r"(<{7}|>{7}|\|{7})( |$)", line)] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!\w+:)([^)\s]*)\)", text):
        path, _, anchor = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target
