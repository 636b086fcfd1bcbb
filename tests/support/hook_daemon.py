"""A real daemon whose hooks are decided by words in the command: `python -I hook_daemon.py` with a daemon's arguments.

Stands in for a policy where a test is about the way of a hook, and not about what is allowed.

    command contains    decision
    forbidden           denied
    asked               allowed once the file `approved` is in the home, denied once `refused` is
    hanging             none
    anything else       allowed

A stop is blocked while the git repository of the client's folder has changes that are not committed.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from hearth.daemon import control
from hearth.daemon.main import main
from hearth.hub.authorization.hooks import HookCaller, HookService, HookSettings
from hearth.policy.hook_formats import HookCall, HookVerdict

LOOK_SECONDS = 0.02


class WordDecider:
    """Decider by words."""

    def __init__(self) -> None:
        self._home = Path(os.environ["HOME"])

    def settings(self) -> HookSettings:
        return HookSettings(wait=20.0)

    async def reaches_hearth(self, who: HookCaller, server: str, tool: str) -> bool:
        return server == "hearth"

    async def decide_tool(
        self, who: HookCaller, server: str | None, tool: str, arguments: bytes, workspace: str | None
    ) -> HookVerdict:
        self._note(f"{who.client} {tool} {arguments.decode()}")
        if b"forbidden" in arguments:
            return HookVerdict("deny", "the word forbids it")
        if b"hanging" in arguments:
            try:
                await asyncio.Event().wait()
            finally:
                self._note("withdrawn")
        while b"asked" in arguments:
            if (self._home / "refused").exists():
                return HookVerdict("deny", "a person refused it")
            if (self._home / "approved").exists():
                break
            await asyncio.sleep(LOOK_SECONDS)
        return HookVerdict("allow")

    async def stop_verdict(self, who: HookCaller, call: HookCall) -> HookVerdict:
        self._note(f"{who.client} {call.event}")
        changed = subprocess.run(["git", "status", "--porcelain"], cwd=call.cwd, capture_output=True, check=True).stdout
        return HookVerdict("block", "commit your work first") if changed else HookVerdict("allow")

    def noticed(self, who: HookCaller, call: HookCall) -> None:
        self._note(f"{who.client} {call.event}")

    def _note(self, line: str) -> None:
        with (self._home / "hooks.log").open("a") as log:
            log.write(line + "\n")


class DecidingControl(control.ControlApi):
    """Control of a daemon with such a decider."""

    def __init__(self, services: object) -> None:
        super().__init__(services)  # type: ignore[arg-type]  # the daemon itself
        service = HookService(WordDecider())
        self.hooks = lambda: service


if __name__ == "__main__":
    import hearth.daemon.daemon

    hearth.daemon.daemon.ControlApi = DecidingControl  # type: ignore[misc]
    sys.exit(main(sys.argv[1:]))
