"""Instances that nobody uses: ended after a while, unless somebody comes back or something is left to be done."""

import asyncio
from collections.abc import Callable

from hearth.upstreams.instance import Instance
from hearth.upstreams.supervision import STARTING

# Until an instance that cannot be ended yet is looked at again.
_LOOK_AGAIN_SECONDS = 0.1


class IdleReaper:
    """Those of one server. `end` ends one for good."""

    def __init__(self, end: Callable[[Instance], None]) -> None:
        self._end = end
        self._timers: dict[Instance, asyncio.TimerHandle] = {}

    def wait(self, instance: Instance, seconds: float, at_least: float = 0.0) -> None:
        """End it in so many seconds, counted from now, if nobody uses it until then."""
        if not instance.holders and not instance.obsolete and not instance.is_eager:
            self.forget(instance)
            loop = asyncio.get_running_loop()
            self._timers[instance] = loop.call_later(max(seconds, at_least), self._look, instance, seconds)

    def forget(self, instance: Instance) -> None:
        """It is not ended for want of use: somebody uses it, or it is ended anyway."""
        timer = self._timers.pop(instance, None)
        if timer:
            timer.cancel()

    def _look(self, instance: Instance, seconds: float) -> None:
        self._timers.pop(instance, None)
        if instance.holders or instance.obsolete:
            return
        if instance.in_flight or instance.queue or instance.is_awaited or instance.state == STARTING:
            self.wait(instance, seconds, _LOOK_AGAIN_SECONDS)
        elif instance.pause:
            # Another in its place would know nothing of what went wrong, and begin anew.
            self.wait(instance, seconds, instance.pause)
        else:
            self._end(instance)
