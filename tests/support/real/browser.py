"""A real browser without a screen: Chromium, driven by playwright-core. It finds nothing but this machine."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.real.installation import node, packages
from support.real.sites import PAGES
from support.requirements import needs_program

Found = dict[str, Any]
# A browser starts within a second; a loaded machine takes some more.
VISIT_SECONDS = 30.0
# Names that end in `.test` mean this machine, and no other name means anything.
_NAMES = "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"
_QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


class Visit(NamedTuple):
    """A page, and the function of its script that is called there."""

    origin: str
    does: str
    given: Found
    copied_from: str | None = None  # where the page came from before its name meant something else


def bundle(folder: Path) -> Path:
    """The official client for TypeScript as one file for browsers."""
    command = [node(), str(PAGES / "bundle.mjs"), packages(), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=VISIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "index.js"


def visit(*visits: Visit, options: Sequence[str] = (), permissions: Sequence[str] = ()) -> list[Found]:
    """What each of the visits gave, one after the other: a `result`, or the `error` that was thrown in the page.

    `answers` has the method, address and status of each request that was answered.
    """
    job = {
        "packages": packages(),
        "program": needs_program("chromium"),
        "options": [*_QUIET, f"--host-resolver-rules={_NAMES}", *options],
        "permissions": list(permissions),
        "patience_ms": VISIT_SECONDS * 1000,
        "visits": [each._asdict() for each in visits],
    }
    done = subprocess.run(
        [node(), str(PAGES / "visits.mjs")],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=VISIT_SECONDS * (len(visits) + 1),
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)
