"""Programs within bounds: of time, of output, and of whatever they start."""

import os
import sys
import time
from pathlib import Path

import pytest

from hearth.errors import HearthError
from hearth.host import bounded_run
from hearth.host.bounded_run import RunResult

BOUND_SECONDS = 30.0


def run(text: str, folder: Path, seconds: float = BOUND_SECONDS, size: int = 1000) -> RunResult:
    return bounded_run.run([sys.executable, "-c", text], str(folder), os.environ, seconds, size)


def test_output_error_and_exit_code_come_back_together(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), flush=True); print('bad', file=sys.stderr); sys.exit(3)"
    found = run(code, tmp_path)
    assert found == RunResult(3, f"{tmp_path}\nbad\n".encode(), is_cut=False, is_late=False)


def test_a_program_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    found = run("import os, time; os.close(1); os.close(2); time.sleep(0.2); os._exit(5)", tmp_path)
    assert (found.exit_code, found.is_late) == (5, False)


def test_too_much_output_ends_the_program(tmp_path: Path) -> None:
    found = run("while True: print('y' * 100)", tmp_path)
    assert found.is_cut and len(found.output) == 1000 and found.exit_code != 0


def test_a_program_that_takes_too_long_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    code = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)']);"
        f"open({str(mark)!r}, 'w').write(str(p.pid)); time.sleep(1000)"
    )
    found = run(code, tmp_path, seconds=2.0)
    assert found.is_late
    pid, deadline = int(mark.read_text()), time.monotonic() + BOUND_SECONDS
    while os.path.exists(f"/proc/{pid}/exe") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}/exe")


def test_a_program_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(HearthError, match="'no-such-program' cannot be run in"):
        bounded_run.run(["no-such-program"], str(tmp_path), os.environ, 1.0, 10)
