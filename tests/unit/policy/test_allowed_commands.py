"""Whatever command is allowed, a real bash runs nothing but what the grants list: checked by another program's eyes.

Legitimate commands of the table are damaged at random. Those that are still allowed are given to bash, and the words of
every command that it would run are compared with a list of patterns that shares no code with the matchers.
"""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.policy.decision import decide
from hearth.policy.loader import parse
from hearth.policy.template import TEAM

from .real_shells import BASH, FRAGMENTS, TEXTS_OF_ONE_RUN, batches, recorded
from .slip_attempts import LEGITIMATE

SOURCES = [text for text in LEGITIMATE if isinstance(text, str) and "{home}" not in text]
TRICKS = [
    *FRAGMENTS,
    "..",
    "../",
    "/etc",
    "~",
    ":main",
    "main",
    "HEAD",
    " -f",
    " --force",
    " origin",
    "sudo ",
    "env ",
    " src",
]
# Words are joined by NUL: no pattern can reach over the end of a word.
ALLOWED = re.compile(
    r"git\0status(\0--short)?"
    r"|git\0add\0-A|git\0add(\0-A)?(\0[^-\0][^\0]*)+"
    r"|git\0commit(\0-a)?\0-m\0[^-\0][^\0]*(\0-m\0[^-\0][^\0]*)?"
    r"|git\0push(\0-u|\0--set-upstream)?\0origin\0feature/[A-Za-z0-9_.@%,=#!/-]+"
    r"|pytest(\0-q)?(\0-x)?(\0[^-\0][^\0]*)*"
    r"|(make|npm|cargo)\0test|go\0test\0\./\.\.\."
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Return a legitimate command, or two, with some fragments put in or characters taken out."""
    text = draw(st.sampled_from(SOURCES))
    if draw(st.booleans()):
        text += draw(st.sampled_from([";", " && ", "|", " ", ""])) + draw(st.sampled_from(SOURCES))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(TRICKS)) + text[at + draw(st.integers(0, 1)) :]
    return text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """Return a project with a link that leads out."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".git").symlink_to(repository)
    (folder / "src").mkdir()
    (folder / "out").symlink_to("/etc")
    return folder


@pytest.mark.skipif(not os.path.exists(BASH), reason="there is no bash")
@batches
@given(sources=st.lists(damaged(), min_size=TEXTS_OF_ONE_RUN, max_size=TEXTS_OF_ONE_RUN))
def test_bash_runs_nothing_but_what_the_grants_list(place: Path, sources: list[str]) -> None:
    policy = parse(str(place / "policy.toml"), TEAM.encode())
    allowed = [
        text
        for text in dict.fromkeys(sources)
        if decide(policy, "dev", None, "Bash", json.dumps({"command": text}).encode(), str(place)).outcome == "allow"
    ]
    for text, commands in zip(allowed, recorded(allowed), strict=True):
        assert commands, text
        for words in commands:
            assert ALLOWED.fullmatch("\0".join(words)), (text, words)
            if words[:2] == ("git", "add") or words[0] == "pytest":
                for path in words[1:] if words[0] == "pytest" else words[2:]:
                    assert path.startswith("-") or is_inside(place, path), (text, words)


def is_inside(place: Path, path: str) -> bool:
    """Tell whether a path leads into the project, and not into git's own folder."""
    found = (place / path).resolve()
    return found.is_relative_to(place.resolve()) and ".git" not in found.parts
