"""Commands that run the rest of their words where the folder named first cannot be written to."""

import os
import subprocess

from support.kernel import BOUND_SECONDS
from support.requirements import needs, needs_program

_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
# A disk of one small file, which is there.
_FULL = 'mount -t tmpfs -o size=16k,mode=700 full "$0" && ! head -c 64k /dev/zero >"$0"/fill 2>/dev/null'


def read_only_mount() -> list[str]:
    """It is mounted read-only."""
    return inside(_READ_ONLY)


def full_mount() -> list[str]:
    """It is on a disk that is full."""
    return inside(_FULL)


def inside(mounting: str) -> list[str]:
    """These shell commands were run there, with the folder as $0."""
    unshare = needs_program("unshare")
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    prefix = [unshare, "--mount", *as_root, "sh", "-c", f'{mounting} && exec "$@"']
    probe = subprocess.run(
        [*prefix, "/tmp", "true"], capture_output=True, timeout=BOUND_SECONDS, check=False, text=True
    )
    needs(probe.returncode == 0, f"a mount namespace ({probe.stderr.strip()})")
    return prefix
