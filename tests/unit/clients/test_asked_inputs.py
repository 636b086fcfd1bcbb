"""What VS Code asks for, read_inputs from its file."""

from pathlib import Path

from hearth.clients.importer.placeholders import Input, read_inputs


def test_inputs_are_read_with_what_is_known_of_them(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        """{ // a comment
        "inputs": [
            {"type": "promptString", "id": "token", "description": "Token", "password": true},
            {"type": "promptString", "id": "region", "default": "eu"},
            {"type": "pickString", "id": "kind", "options": ["a", {"label": "B", "value": "b"}, 3]},
            {"type": "command", "id": "branch", "command": "git.branch"},
            {"id": 3}, "nonsense"
        ]}"""
    )
    assert read_inputs(str(path)) == {
        "token": Input("token", "Token", None, True),
        "region": Input("region", "region", "eu"),
        "kind": Input("kind", "kind", choices=("a", "b")),
        "branch": Input("branch", "branch", is_command=True),
    }


def test_a_file_without_any_has_none(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    assert read_inputs(str(path)) == {}
    path.write_text('{"inputs": {}}')
    assert read_inputs(str(path)) == {}
