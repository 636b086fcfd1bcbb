"""What a legacy server was told in one session, so that another one can be brought to the same state. Pure.

`generation` counts the sessions: whoever finds one lost can tell whether somebody else has renewed it since.
"""

from hearth.bridge.remote.headers import SESSION, VERSION
from hearth.bridge.remote.messages import INITIALIZE, INITIALIZED, Key, Message, is_text, quoted

# The specification allows any length; a header has to fit into 8 KiB with all the others.
_ID_LIMIT_CHARACTERS = 4096
# Subscriptions that are told again; more are no client's.
_TOLD_LIMIT = 1000
# Questions that may be open; of more than that, those that were asked first are not answered any more.
_QUESTIONS_LIMIT = 10_000
_SET_LEVEL, _SUBSCRIBE, _UNSUBSCRIBE = "logging/setLevel", "resources/subscribe", "resources/unsubscribe"


class Session:
    """The session that there is now, if the server gave one, and how to begin another."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.version: str | None = None
        self.generation = 0
        # The client's own lines.
        self.opening: Message | None = None
        self.introduction: bytes | None = None
        self._told: dict[tuple[str, str], Message] = {}
        self._announces: list[str] = []
        # The server's open questions, by the generation in which they were asked.
        self._questions: dict[Key, tuple[int, str]] = {}

    @property
    def can_begin_again(self) -> bool:
        """Whether there was one to lose, and it is known how to begin it."""
        return self.opening is not None and self.generation > 0

    def headers(self) -> dict[str, str]:
        """What every message of the session carries."""
        found = {SESSION: self.id} if self.id else {}
        return {**found, VERSION: self.version} if self.version else found

    def note(self, message: Message) -> None:
        """Keep what a message of the client changes in the server for the whole session."""
        method = message.method
        if method == INITIALIZE:
            self.opening = message
            self.introduction = None
            self._told.clear()
        elif method == INITIALIZED:
            self.introduction = message.raw
        elif method == _SET_LEVEL:
            self._told[method, ""] = message
        elif method == _SUBSCRIBE and len(self._told) < _TOLD_LIMIT:
            self._told[method, str(message.params.get("uri"))] = message
        elif method == _UNSUBSCRIBE:
            self._told.pop((_SUBSCRIBE, str(message.params.get("uri"))), None)

    def begin(self, id: str | None, answer: Message) -> None:
        """The server took `initialize`: its answer, and the id that came with it."""
        result = answer.result or {}
        self.id = id if id and is_usable(id) else None
        version = result.get("protocolVersion")
        self.version = version if is_text(version) and is_usable(version) else None
        capabilities = result.get("capabilities")
        found = capabilities if isinstance(capabilities, dict) else {}
        offers = ((name, found.get(name)) for name in ("tools", "resources", "prompts"))
        self._announces = [
            name for name, offer in offers if isinstance(offer, dict) and offer.get("listChanged") is True
        ]
        self.generation += 1

    def told(self) -> list[Message]:
        """What to say again to a new session."""
        return list(self._told.values())

    def notices(self) -> list[bytes]:
        """What a new session means to a client that knew the lists of the former one."""
        changed = '{{"jsonrpc":"2.0","method":"notifications/{}/list_changed"}}'
        lines = [changed.format(name).encode() for name in self._announces]
        for key, (generation, id) in list(self._questions.items()):
            if generation != self.generation:
                del self._questions[key]
                params = f'{{"requestId":{quoted(id)},"reason":"the session in which it was asked is gone"}}'
                lines.append(f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}'.encode())
        return lines

    def asked(self, question: Message) -> None:
        """The server has asked the client something."""
        if question.key and question.id is not None:
            while len(self._questions) >= _QUESTIONS_LIMIT:
                self._questions.pop(next(iter(self._questions)), None)
            self._questions[question.key] = (self.generation, question.id)

    def may_answer(self, answer: Message) -> bool:
        """Whether an answer of the client's is to a question of this session; the question is no longer open."""
        generation, _ = self._questions.pop(answer.key, (-1, "")) if answer.key else (-1, "")
        return generation == self.generation


def is_usable(id: str) -> bool:
    """Whether a text may be sent back in a header as it is: visible ASCII, of some length."""
    return 0 < len(id) <= _ID_LIMIT_CHARACTERS and all("!" <= character <= "~" for character in id)
