"""The whole demo, from an empty scratch home to an empty one."""

import os
from collections.abc import Callable

from hearth.demo.report import Report
from hearth.demo.scratch import scratch_home
from hearth.demo.stage import IDLE_PATIENCE_SECONDS, Commands, Stage


def run(commands: Commands, agents: int, tell: Callable[[str], None]) -> Report:
    """Run every act; `tell` hears what is going on. Raises HearthError when something did not work."""
    with scratch_home() as scratch:
        stage = Stage(scratch, commands, agents)
        names = " and ".join(stage.servers)
        apart = None
        if stage.can_compare:
            tell(f"without Hearth: {agents} agents, each with {names} of its own")
            apart = stage.servers_apart()
        tell(f"with Hearth: {agents} agents started at once, no daemon running")
        shared, status = stage.servers_shared()
        greeted_by = stage.daemon_ids()
        tell(f"{agents} agents count on one counter")
        answered_by, counts = stage.ask_everybody("whoami"), stage.ask_everybody("count")
        tell(f"kill -9 {status['pid']}, with {agents} calls in flight")
        kill = stage.kill_daemon(status["pid"])
        tell("every agent leaves; the daemon goes out by itself")
        idle = stage.let_go_out(kill.pid_after)
        left = scratch.wait_until_empty(IDLE_PATIENCE_SECONDS)
    return Report(
        agents=agents,
        eras=stage.eras,
        servers=list(stage.servers),
        measure=stage.measure.name,
        apart=apart,
        hearth=shared,
        daemon_pid=status["pid"],
        daemon_ids=greeted_by,
        answered_by=answered_by,
        counts=counts,
        kill=kill,
        idle=idle,
        processes_left=len(left),
        files_left=int(os.path.exists(scratch.folder)),
    )
