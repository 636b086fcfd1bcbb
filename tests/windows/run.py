"""Runs the tests of this folder by the Windows Python: `python tests/windows/run.py [PYTEST-ARGUMENTS]`.

The exit code is pytest's. Without Wine, and without the right to install it, nothing is run and that is no error,
except in CI. Every program that was started there is ended afterwards.
"""

import os
import subprocess
import sys
import threading

import install
import machine

FOLDER = "tests/windows"
# All of them take two minutes on a quiet machine; .ci/run has them run beside others.
LIMIT_SECONDS = 900


def forward(process: "subprocess.Popen[bytes]") -> None:
    """Print what it says, as it says it."""
    assert process.stdout
    while data := process.stdout.read1(65536):
        sys.stdout.buffer.write(data.replace(b"\r\n", b"\n"))
        sys.stdout.buffer.flush()


def run(arguments: list[str]) -> int:
    """Run pytest there; its exit code."""
    options = ["-o", "cache_dir=.wine/pytest_cache", *arguments]
    chosen = [] if any(each.startswith(FOLDER) for each in arguments) else [FOLDER]
    process = machine.start([machine.windows_path(machine.PYTHON), "-m", "pytest", *options, *chosen])
    # A thread, because a descendant that is left over may hold the pipe open.
    reader = threading.Thread(target=forward, args=(process,), daemon=True)
    reader.start()
    try:
        return process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"tests/windows/run.py: not done within {LIMIT_SECONDS} s", file=sys.stderr)
        process.kill()
        return 1
    finally:
        machine.end()
        reader.join(machine.SERVER_SECONDS)


def main() -> int:
    """Install what is missing, run the tests."""
    if not install.have_wine():
        print(f"make test-windows: skipped: {machine.WINE} is missing, and installing it takes root and apt-get")
        return 1 if os.environ.get("CI") else 0
    install.install()
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
