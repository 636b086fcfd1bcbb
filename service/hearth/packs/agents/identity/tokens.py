"""Tokens of agents' processes: random, in memory only, and in one file that the agent's bridges read.

A token is good from the start of a process to its end. The daemon keeps only its hash.
"""

import hashlib
import logging
import os
import secrets
from typing import TYPE_CHECKING

from hearth.errors import HearthError
from hearth.hub.agent_directory import TOKEN_PREFIX
from hearth.packs.agents.process import launch

if TYPE_CHECKING:
    from hearth.paths import Places

log = logging.getLogger(__name__)

_TOKEN_BYTES = 32


class AgentTokens:
    """Tokens of the agents of one daemon."""

    def __init__(self, places: "Places") -> None:
        self._places = places
        self._holders: dict[bytes, str] = {}

    def issue(self, agent_id: str) -> str:
        """Give an agent a new token, in place of its former one; return the path of its file. Raises HearthError."""
        self.revoke(agent_id)
        token = TOKEN_PREFIX + secrets.token_hex(_TOKEN_BYTES)
        path = launch.token_file(self._places, agent_id)
        try:
            launch.write_token(path, token)
        except OSError as exc:
            raise HearthError(f"the token of agent {agent_id} cannot be written to {path}: {exc.strerror}") from exc
        self._holders[_digest(token)] = agent_id
        return path

    def holder(self, token: str) -> str | None:
        """Return the agent whose token this is."""
        return self._holders.get(_digest(token))

    def revoke(self, agent_id: str) -> None:
        """Withdraw the token of an agent, and remove its file."""
        for digest, holder in list(self._holders.items()):
            if holder == agent_id:
                del self._holders[digest]
                launch.remove_token(launch.token_file(self._places, agent_id))

    def remove_former(self) -> None:
        """Remove the files that a former daemon has left: their tokens prove nothing any more."""
        folder = self._places.agent_tokens()
        try:
            names = os.listdir(folder)
        except OSError:
            return
        for name in names:
            if name.endswith(".token"):
                launch.remove_token(os.path.join(folder, name))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
