"""Permission `agent_mode(ID)`: modes in which an agent never asks, as Hearth itself asks about them. `agent_folder`.

The permission is built in: roles have it in `grants` without a table `[permissions.agent_mode]`, and rules name it as a
permission or as the tool `agent_mode`. Without a grant and a rule a person is asked, also where `otherwise` allows: an
agent that never asks is outside of this policy but for its hooks. A lead does not decide about it.

The tool `agent_folder` is decided alike: a new agent that is to work where its creator may not, since grants of paths
and the policies of projects are those of the agent's folder. Pure.
"""

import json

from hearth.policy.matchers import parse_arguments
from hearth.policy.model import Decision, Permission
from hearth.policy.patterns import PatternSet

# Name of the permission, and of the tool that stands for the question. No server has it.
AGENT_MODE = "agent_mode"
# The tool that stands for the question whether a new agent may work in another folder.
AGENT_FOLDER = "agent_folder"
# Questions that a person answers, where neither a rule nor a grant does.
FOR_PERSON = frozenset({AGENT_MODE, AGENT_FOLDER})
PERMISSION = Permission(
    name=AGENT_MODE,
    tools=PatternSet((AGENT_MODE,)),
    reach=PatternSet((AGENT_MODE,), generous=True),
    arguments=parse_arguments({"mode": "{mode:word}", "*": "*"}),
)


def arguments_of(provider: str, mode: str) -> bytes:
    """Return the arguments of the question whether an agent of a provider may work in a mode."""
    return json.dumps({"mode": mode, "provider": provider}, separators=(",", ":"), sort_keys=True).encode()


def folder_arguments(folder: str, role: str) -> bytes:
    """Return the arguments of the question whether a new agent of a role may work in a folder."""
    return json.dumps({"cwd": folder, "role": role}, separators=(",", ":"), sort_keys=True).encode()


def for_person(decision: Decision) -> Decision:
    """Return the decision about a mode or a folder: what would be asked of a lead, is asked of a person."""
    return decision._replace(level="human") if decision.outcome == "ask" else decision
