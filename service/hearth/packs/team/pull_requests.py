"""Pull requests of agents: `file_pr` runs the command of `[team] file_pr` in the agent's folder, and records the URL.

Words of the command may contain {title}, {body}, {base} and {branch}. No shell is involved: each placeholder stays
within its word. The program gets the few variables that a server gets, and those by which it knows its forge: git runs
programs that the config of the agent's repository names, which must not see what else the daemon was started with.

The call waits for less than clients do, and returns early with `attention` when something of another agent waits for
its agent. The command goes on, and the same call again waits on: it is never run twice for one pull request.
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hearth.errors import HearthError
from hearth.packs.agents.identity.authority import caller_of
from hearth.packs.agents.model import AgentRecord, PullRequest
from hearth.packs.team import schemas
from hearth.packs.team.schemas import FLAG, TEXT_OR_NULL
from hearth.upstreams import threads
from hearth.upstreams.pack_api import Arguments, CallContext, PackTool, ToolError

if TYPE_CHECKING:
    from hearth.packs import PackServices

TITLE_CHARACTERS = 256
# The system's limit for one word of a command is 128 KiB on Linux.
BODY_BYTES = 100_000
BRANCH_CHARACTERS = 250
# A push over a slow line is part of some commands.
COMMAND_SECONDS = 120.0
COMMAND_OUTPUT_BYTES = 1024 * 1024
# Below the minute after which clients give up on a call.
WAIT_SECONDS = 45.0
# Outcomes that agents have not fetched; an agent that was killed never does.
KEPT_OUTCOMES = 100
SHOWN_CHARACTERS = 1500
URL_CHARACTERS = 2000

_PLACEHOLDER = re.compile(r"\{(title|body|base|branch)\}")
_URL = re.compile(r"https?://[^\s\"'<>\x00-\x1f\x7f]+")
_NUMBER = re.compile(r"/(?:pull|pulls|merge_requests|pull-requests)/(\d+)")
_BRANCH = re.compile(r"[^-\s:\\^~?*\[][^\s:\\^~?*\[]*")
# Variables of the daemon by which programs log in to forges and git servers.
_PASSED_ON = ("GH_", "GITHUB_", "GITLAB_", "GLAB_", "GITEA_", "FORGEJO_", "BITBUCKET_")
_PASSED_ON_ALONE = frozenset({"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME"})
# Questions of the program have no one to answer them.
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GH_PROMPT_DISABLED": "1"}


class Filing(NamedTuple):
    """Pull request of one agent: its arguments, and the task that runs the command."""

    arguments: Arguments
    task: "asyncio.Future[dict[str, Any]]"


class PullRequests:
    """Tool for pull requests."""

    def __init__(self, services: "PackServices") -> None:
        self._services = services
        # By the agent's id; a finished one until the agent has its outcome.
        self._filings: dict[str, Filing] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a command runs."""
        return any(not each.task.done() for each in self._filings.values())

    def tools(self) -> tuple[PackTool, ...]:
        """Return the tools."""
        branch = schemas.text(
            "Branch that it is for; by default the one that your worktree began at.", BRANCH_CHARACTERS
        )
        return (
            PackTool(
                "file_pr",
                "File a pull request for the current branch of your folder. Commit your work first. If `success` is"
                " false, the command still runs: call it again unchanged to wait on.",
                schemas.arguments(
                    "title",
                    "body",
                    title=schemas.text("Title of the pull request.", TITLE_CHARACTERS, 1),
                    body=schemas.text("Its description.", BODY_BYTES),
                    base_branch=branch,
                ),
                self._file,
                {"title": "File a pull request", **schemas.WRITES, "openWorldHint": True},
                schemas.with_attention(
                    schemas.result(
                        success=FLAG,
                        id=TEXT_OR_NULL,
                        url=TEXT_OR_NULL,
                        number={"type": ["integer", "null"]},
                        branch=TEXT_OR_NULL,
                        base=TEXT_OR_NULL,
                    )
                ),
            ),
        )

    async def stop(self) -> None:
        """Cancel what waits for a command; the command itself ends within its limit."""
        tasks = [each.task for each in self._filings.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _file(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        record = caller_of(self._services, context)
        command = self._services.hub.config.team.file_pr
        if not command:
            raise ToolError(
                "no command files pull requests here; a person sets `file_pr` in the table `[team]` of the config"
            )
        filing = self._filings.get(record.id)
        if filing is None or filing.arguments != arguments:
            if filing is not None and not filing.task.done():
                raise ToolError("another pull request of yours is being filed at this moment; wait for that")
            filing = self._begin(record, command, arguments)
        # A call that is cancelled meanwhile does not take the pull request back: it is recorded in any case.
        waiting = asyncio.wait({filing.task}, timeout=WAIT_SECONDS)
        _, attention = await self._services.agents().delivery.notices.wait_for(record.id, waiting)
        told = {"attention": attention} if attention else {}
        if not filing.task.done():
            return {**dict.fromkeys(("id", "url", "number", "branch", "base")), "success": False, **told}
        self._filings.pop(record.id, None)
        return {**filing.task.result(), **told}

    def _begin(self, record: AgentRecord, command: Sequence[str], arguments: Arguments) -> Filing:
        filing = Filing(arguments, asyncio.ensure_future(self._filed(record, command, arguments)))
        # A failure that no call fetches is no error of this program.
        filing.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._filings[record.id] = filing
        finished = [agent_id for agent_id, each in self._filings.items() if each.task.done()]
        for agent_id in finished[:-KEPT_OUTCOMES]:
            del self._filings[agent_id]
        return filing

    async def _filed(self, record: AgentRecord, command: Sequence[str], arguments: Arguments) -> dict[str, Any]:
        output, branch, base = await threads.run(run, command, record, arguments)
        urls = [each.rstrip(".,;:!?)]}")[:URL_CHARACTERS] for each in _URL.findall(output)]
        url = next((each for each in reversed(urls) if _NUMBER.search(each)), urls[-1] if urls else "")
        found = PullRequest(agent_id=record.id, title=arguments["title"], url=url, base=base)
        await self._services.agents().store.add_pull_request(found)
        number = _NUMBER.search(url)
        return {
            "success": True,
            "id": found.id,
            "url": url or None,
            "number": int(number[1]) if number else None,
            "branch": branch,
            "base": base or None,
        }


def run(command: Sequence[str], record: AgentRecord, arguments: Arguments) -> tuple[str, str, str]:
    """Run the command in the agent's folder; return its output, the branch and its base. Blocks. Raises ToolError."""
    from hearth.host import bounded_run, git

    if git.top(record.cwd) is None:
        raise ToolError(f"{record.cwd} is not in a git repository, so there is no branch for a pull request")
    branch = git.current_branch(record.cwd)
    if branch is None:
        raise ToolError(f"{record.cwd} is on no branch; check one out first")
    base = arguments.get("base_branch") or _own_base(record)
    if base and not _BRANCH.fullmatch(base):
        raise ToolError(f"{base!r} cannot be the name of a branch (base_branch)")
    if base == branch:
        raise ToolError(f"{branch!r} is the base branch itself; commit your work to a branch of its own first")
    words = expanded(command, {**arguments, "branch": branch, "base": base})
    try:
        done = bounded_run.run(words, record.cwd, environment(os.environ), COMMAND_SECONDS, COMMAND_OUTPUT_BYTES)
    except HearthError as exc:
        raise ToolError(f"{exc}; a person sets `file_pr` in the table `[team]` of the config") from exc
    output = done.output.decode("utf-8", "replace")
    if done.is_late:
        raise ToolError(f"`{command[0]}` took longer than {COMMAND_SECONDS:g} s, and was ended")
    if done.exit_code != 0:
        tail = output.strip()[-SHOWN_CHARACTERS:]
        raise ToolError(f"`{command[0]}` failed with exit code {done.exit_code}\n{tail}".strip())
    return output, branch, base


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program that files a pull request."""
    from hearth.config import ServerSpec
    from hearth.secrets.references import child_environment

    own = {name: value for name, value in environ.items() if name.startswith(_PASSED_ON) or name in _PASSED_ON_ALONE}
    return {**child_environment(ServerSpec(name="file_pr"), environ), **own, **_ENVIRONMENT}


def expanded(command: Sequence[str], values: Arguments) -> list[str]:
    """Return the words of a command with their placeholders replaced. Raises ToolError."""

    def replaced(match: re.Match[str]) -> str:
        found = str(values[match[1]])
        if match[1] == "base" and not found:
            raise ToolError("base_branch is required here: the branch that the pull request is for")
        if "\0" in found or len(found.encode("utf-8", "surrogatepass")) > BODY_BYTES:
            raise ToolError(f"the {match[1]} has a NUL character, or over {BODY_BYTES} bytes")
        return found.encode("utf-8", "replace").decode()

    return [_PLACEHOLDER.sub(replaced, word) for word in command]


def _own_base(record: AgentRecord) -> str:
    """Return the branch that the agent's worktree began at, without the name of its remote."""
    from hearth.host import git

    base = record.worktree.base if record.worktree else ""
    known = git.branches(record.cwd) if base else {}
    is_remotes = f"refs/heads/{base}" not in known and f"refs/remotes/{base}" in known
    return base.partition("/")[2] if is_remotes else base
