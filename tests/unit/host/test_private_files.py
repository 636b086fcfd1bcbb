"""Small files that are replaced whole, also by processes that cannot be told apart."""

import os
from pathlib import Path

import pytest

from hearth.host import private_files


@pytest.mark.parametrize("put", [private_files.write, private_files.create])
def test_two_processes_with_the_same_id_do_not_write_into_each_other_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: object
) -> None:
    assert callable(put)
    path, half_written = str(tmp_path / "known.json"), []
    original = private_files._write

    def interrupted(temporary: str, data: bytes, durable: bool = False) -> None:
        half_written.append(temporary)
        if len(half_written) == 1:
            # The other one, as it writes the same file at the same moment.
            put(path, b"other")
        original(temporary, data, durable)

    monkeypatch.setattr(private_files, "_write", interrupted)
    put(path, b"one")
    assert len(set(half_written)) == 2
    assert all(name.startswith(f"{path}.{os.getpid()}-") for name in half_written)
    assert Path(path).read_bytes() == (b"one" if put is private_files.write else b"other")
    assert os.listdir(tmp_path) == ["known.json"]
