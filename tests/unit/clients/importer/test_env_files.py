"""Files of variables, as people write them."""

from pathlib import Path

import pytest

from hearth.clients.importer import placeholders


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A=1\nB=two words\n", {"A": "1", "B": "two words"}),
        ("export A=1\r\n  B = 2  \r\n", {"A": "1", "B": "2"}),
        ("# A=1\n\nB=2 # two\nC='a # b'", {"B": "2", "C": "a # b"}),
        ('A="x\\ny \\"z\\" \\\\"', {"A": 'x\ny "z" \\'}),
        ("A='line\none'\nB=2", {"A": "line\none", "B": "2"}),
        ("A=\nB=''\nA=3", {"A": "3", "B": ""}),
        ("URL=https://x/?a=b&c=d", {"URL": "https://x/?a=b&c=d"}),
        ("no variable\n=\nA", {}),
        ("", {}),
    ],
)
def test_variables_are_read(text: str, found: dict[str, str]) -> None:
    assert placeholders.parse_env_file(text) == found


def test_a_file_that_cannot_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    assert "does not exist" in placeholders.read_env_file(str(path))
    assert "cannot be read" in placeholders.read_env_file(str(tmp_path))
    path.write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in placeholders.read_env_file(str(path))
    path.write_bytes(b"\xef\xbb\xbfA=1\n")
    assert placeholders.read_env_file(str(path)) == {"A": "1"}
