"""Hooks: `hearth hook` from spawn to exit, with a decision of the daemon in between."""

import json
import os
import subprocess
from collections.abc import Callable
from time import perf_counter_ns

from chain import ECHO, HEARTH, PYTHON, HearthChain
from client import ChainError
from measure import Action, milliseconds
from stage import Stage

POLICY = 'default_role = "dev"\n[roles.dev]\ntools = ["**"]\notherwise = "allow"\n'
CALL = b'{"session_id":"b","cwd":"/tmp","tool_name":"Bash","tool_input":{"command":"ls -l"}}'


def hook_actions(stage: Stage) -> dict[str, Action]:
    """A hook of Claude Code that is allowed, one without a policy, and the interpreter's own floor."""
    held, free = HearthChain(stage, "hook", ECHO), HearthChain(stage, "hook-free", ECHO)
    with open(os.path.join(held.env["HOME"], ".config", "hearth", "policy.toml"), "w") as policy:
        policy.write(POLICY)
    # The program alone: interpreter, flags and the bridge's file, as it is written where there is no launcher.
    words = [*held.printed[:4], "hook", "pre-tool-use", "--client", "claude"]
    decided = hooked(stage, words, held.env, is_allowed)
    decided()
    return {
        "python -I -S -c pass": hooked(stage, [PYTHON, "-I", "-S", "-c", "pass"], held.env, is_silent),
        "decided": decided,
        "decided, client's command": hooked(stage, ["/bin/sh", "-c", connected(held)], held.env, is_allowed),
        "no policy": hooked(stage, words, free.env, is_silent),
    }


def connected(chain: HearthChain) -> str:
    """The command that `hearth connect` gives Claude Code for a hook, and that a shell runs for it."""
    folder = os.path.join(chain.env["HOME"], ".claude")
    os.makedirs(folder)
    command = [HEARTH, "connect", "claude-code", "--hooks", "-y"]
    done = subprocess.run(command, env=chain.env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChainError(f"`hearth connect claude-code --hooks` failed: {done.stderr.strip()[-400:]}")
    with open(os.path.join(folder, "settings.json")) as settings:
        (group,) = json.load(settings)["hooks"]["PreToolUse"]
    found: str = group["hooks"][0]["command"]
    return found


def is_allowed(answer: bytes) -> bool:
    return b'"permissionDecision":"allow"' in answer


def is_silent(answer: bytes) -> bool:
    return answer == b""


def hooked(stage: Stage, words: list[str], env: dict[str, str], is_right: Callable[[bytes], bool]) -> Action:
    """From spawn to exit of a program that is given a hook's input."""

    def run() -> float:
        begin = perf_counter_ns()
        child = stage.spawn(words, env)
        try:
            os.write(child.stdin, CALL)
        except BrokenPipeError:
            # A program that reads nothing may have ended before.
            pass
        os.close(child.stdin)
        answer = b""
        while piece := os.read(child.stdout, 65536):
            answer += piece
        os.waitpid(child.pid, 0)
        passed = milliseconds(begin)
        os.close(child.stdout)
        if not is_right(answer):
            raise ChainError(f"the hook answered {answer[:400]!r}")
        return passed

    return run
