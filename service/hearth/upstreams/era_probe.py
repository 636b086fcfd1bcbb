"""Which era a server speaks is found out by one of its instances; the others need not ask it again."""

from hearth.errors import HearthError
from hearth.upstreams.instance import Instance
from hearth.upstreams.supervision import STARTING


class EraProbe:
    """The one that finds it out, while it does."""

    def __init__(self) -> None:
        self._sent: Instance | None = None

    def send(self, instance: Instance) -> None:
        """That instance finds it out, unless another does."""
        self._sent = self._sent or instance

    def back(self, instance: Instance) -> None:
        """That instance knows by now, or has failed."""
        if self._sent is instance:
            self._sent = None

    async def wait(self) -> None:
        """Return when nobody is about to find it out."""
        while self._sent and self._sent.state == STARTING:
            try:
                await self._sent.ensure()
            except HearthError:
                pass
