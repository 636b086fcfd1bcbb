"""Calls that take too long. Progress gives a call more time, up to a ceiling; questions to its client cost it none."""

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic

from hearth.errors import UpstreamError
from hearth.hub.calls import Call
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server

# Looked at this often while something is in flight: nobody sets a limit of fractions of a second.
INTERVAL_SECONDS = 0.5


class Deadlines:
    """Looks at the calls in flight, and at nothing while there are none. `leaving`: instances that take no new ones.

    `looked` is called with each look, the last of which is after the last call.
    """

    def __init__(
        self,
        servers: Callable[[], Iterable[Server]],
        leaving: Callable[[], Iterable[Instance]] = tuple,
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        self.armed = False
        self._servers = servers
        self._leaving = leaving
        self._looked = looked

    def arm(self) -> None:
        """A call was sent."""
        self.armed = True
        asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._look)

    def _look(self) -> None:
        self.armed = False
        now = monotonic()
        instances = [instance for server in self._servers() for instance in server.instances.values()]
        instances += self._leaving()
        for instance in instances:
            for waiter in instance.connection.waiters() if instance.connection else ():
                self._check(waiter, now, instance)
            self._check_queue(now, instance)
        if not self.armed and any(instance.in_flight or instance.queue for instance in instances):
            self.arm()
        self._looked()

    def _check_queue(self, now: float, instance: Instance) -> None:
        limit = instance.spec.call_timeout
        for turn in instance.queue.waiting():
            if limit and now - turn.since > limit:
                # It stays in the queue, and is not sent when its turn comes.
                sentence = f"server {instance.name!r} was busy with other calls for {limit:g} s (key call_timeout)"
                turn.failed(UpstreamError(sentence))

    def _check(self, waiter: object, now: float, instance: Instance) -> None:
        call = waiter if isinstance(waiter, Call) else getattr(waiter, "call", None)
        if not isinstance(call, Call) or call.waits_for_client:
            return
        spec = instance.spec
        if spec.call_ceiling and now - call.started > spec.call_ceiling:
            sentence = f"server {spec.name!r} did not finish within {spec.call_ceiling:g} s (key call_ceiling)"
        elif spec.call_timeout and now - call.touched > spec.call_timeout:
            sentence = f"server {spec.name!r} gave no answer within {spec.call_timeout:g} s (key call_timeout)"
        else:
            return
        call.give_up(b'"it took too long"')
        call.failed(UpstreamError(sentence))
