"""The start of a bridge to an HTTP server, which its client waits for."""

import subprocess
import sys
from pathlib import Path

import hearth

SERVICE = Path(hearth.__file__).parents[1]
# Each takes longer to load than all of the bridge.
HEAVY = {"asyncio", "collections", "email", "enum", "http", "json", "re", "socket", "ssl", "threading", "typing"}


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    program = f"import sys; sys.path.append({str(SERVICE)!r}); import hearth.bridge.remote.entry; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "hearth" in loaded
    assert loaded & HEAVY == set()
