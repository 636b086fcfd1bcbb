"""Wire of frames, for bridges and for control requests of the command line. docs/protocol.md is its specification."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from hearth import __version__
from hearth.daemon import control, hooks
from hearth.daemon.client_connection import COUNTERS
from hearth.daemon.client_limits import LimitedConnection
from hearth.errors import FrameError, HearthError, NoRoom, Refused, WireError
from hearth.faults import SEAMS
from hearth.host import peers
from hearth.hub.sessions import AUTO, FULL, SEARCH, Session
from hearth.mcp import messages
from hearth.wire import json
from hearth.wire.frames import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, FrameDecoder, encode
from hearth.wire.lines import Assembler, Item
from hearth.write_batch import WRITE_BATCH

if TYPE_CHECKING:
    from hearth.daemon.daemon import Daemon
    from hearth.daemon.target_link import TargetLink

log = logging.getLogger(__name__)

_MCP = b'{"type":"mcp","seq":'
_MCP_BYTES = len(_MCP)
# A longer number cannot be the `seq` of a line: no machine lives long enough to count so far.
_USUAL_BYTES = _MCP_BYTES + 20
# A header has at most 64 KiB: a message that spans twenty thousand lines is acknowledged in several frames.
DONE_LIMIT = 2000
# Frame protocol since which a bridge may name a target.
TARGET_PROTOCOL_VERSION = 2
# Limit of the format itself (docs/protocol.md). A line over message_limit gets an error; it does not end the stream.
FORMAT_LIMIT_BYTES = (1 << 28) - (1 << 17)


class FrameConnection(LimitedConnection):
    """Connection that speaks frames, and the client sink of its session. A tag is the `seq` of a line."""

    hears_of_owner = True

    def __init__(
        self, services: "Daemon", transport: asyncio.Transport, pid: int | None, is_own_user: bool = False
    ) -> None:
        super().__init__(services, transport, f"the bridge with pid {pid}")
        config = services.config
        self._decoder = FrameDecoder(FORMAT_LIMIT_BYTES)
        self._assembler = Assembler(config.message_limit, flatten=False)
        self._pieces: list[int] = []
        self._pid = pid
        # Whether the peer is this daemon's own user, by the kernel's word.
        self._is_own_user = is_own_user
        # Frames from a hello on whose process is being looked up.
        self._inflow = transport
        self._held: list[tuple[bytes, bytes]] = []
        self._is_looking_up = self._is_looked_up = False
        self._target: TargetLink | None = None
        self._taken = 0
        self._ack: dict[str, Any] = {}
        self._receiving = False
        self._farewell: dict[str, Any] | None = None
        self._leaving = False
        self._deadline: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.last_seen = services.now()
        # The values that the bridge is told at its hello hold for the whole connection, also after a reload.
        self.heartbeat_interval = config.heartbeat_interval
        self._message_limit = config.message_limit

    # --- incoming bytes

    def data_received(self, data: bytes) -> None:
        """Handle every complete frame before the next read."""
        self.last_seen = self._services.now()
        if self.session and not self.session.active:
            self._services.hub.sessions.came_back(self.session)
        self._receiving = True
        WRITE_BATCH.begin()
        try:
            frames, self._held = [*self._held, *self._decoder.receive_data(data)], []
            for index, (header, payload) in enumerate(frames):
                if header.startswith(_MCP) and header[_MCP_BYTES:-1].isdigit() and len(header) < _USUAL_BYTES:
                    self._receive_line(int(header[_MCP_BYTES:-1]), payload, False, False)
                else:
                    fields = json.loads(header)
                    if self._must_wait(fields):
                        self._held = frames[index:]
                        break
                    self._receive_frame(fields, payload)
            self._flush_ack()
        except (WireError, Refused) as exc:
            self._refuse(exc)
        finally:
            self._receiving = False
            WRITE_BATCH.end()

    def _must_wait(self, header: Any) -> bool:
        """Tell whether a frame is a hello whose process must become known first: commands may follow the greeting."""
        is_known = self._is_looked_up or self._pid is not None or self._services.hub.policy.guard is None
        if is_known or not isinstance(header, dict) or header.get("type") != "hello":
            return False
        if not self._is_looking_up:
            self._is_looking_up = True
            self._inflow.pause_reading()
            self._begin(self._look_up_first())
        return True

    async def _look_up_first(self) -> None:
        await self._find_pid()
        self._is_looked_up = True
        self._inflow.resume_reading()
        self.data_received(b"")

    def _receive_frame(self, header: Any, payload: bytes) -> None:
        kind = header.get("type") if isinstance(header, dict) else None
        if kind == "mcp":
            self._receive_line(
                control.integer(header, "seq"), payload, header.get("resent") is True, header.get("replay") is True
            )
        elif kind == "hello":
            self._receive_hello(header, payload)
        elif isinstance(kind, str) and kind in control.CONTROL_TYPES:
            self._receive_control(header, payload)
        elif kind == "headers":
            if self._target:
                self._target.answered(control.integer(header, "re"), payload)
        elif kind == "goodbye":
            self._leave()
        elif kind != "heartbeat":
            raise FrameError(f"unknown frame type {kind!r}")

    def _receive_hello(self, header: dict[str, Any], payload: bytes) -> None:
        if self.session:
            raise FrameError("a second hello on one connection")
        protocol = control.integer(header, "protocol")
        if not OLDEST_PROTOCOL_VERSION <= protocol <= PROTOCOL_VERSION:
            raise Refused(
                f"the bridge speaks frame protocol {protocol}, this daemon (Hearth {__version__}) speaks "
                f"{OLDEST_PROTOCOL_VERSION} to {PROTOCOL_VERSION}; restart the older of the two"
            )
        if header.get("mode") not in (None, FULL, SEARCH, AUTO):
            raise Refused(f"this version of Hearth does not offer --mode {header['mode']}")
        aims = header.get("to") is True
        if aims and protocol < TARGET_PROTOCOL_VERSION:
            raise Refused(f"--to needs frame protocol {TARGET_PROTOCOL_VERSION}, and the bridge speaks {protocol}")
        if aims and not self._is_own_user:
            raise Refused("--to is for the user of the daemon alone: its connections are made in that user's name")
        if aims and header.get("server") is not None:
            raise Refused("--to and --server both name a server; give one of them")
        self._services.check_room()
        self._open_session(header, protocol, payload if aims else None)
        self._services.look_at_config()

    def _open_session(self, header: dict[str, Any], protocol: int, target: bytes | None) -> None:
        resume = header.get("resume")
        former = (str(resume.get("sessionId")), str(resume.get("secret"))) if isinstance(resume, dict) else None
        hub = self._services.hub
        claimed = control.string(header, "role")
        token = control.string(header, "roleToken")
        origin = self._services.policy.origin(self._pid, token)
        agent = control.string(header, "agentId")
        proven = hub.policy.admit(claimed, token, agent, origin)
        session = self.session = hub.open_session(
            self,
            "frames",
            control.string(header, "server"),
            former,
            control.string(header, "mode"),
            None if target is None else (target, self._link()),
            proven,
        )
        self._services.policy.hold(session, token)
        session.identify(
            self._pid,
            control.string(header, "cwd"),
            control.string(header, "clientId"),
            claimed,
            agent,
        )
        greeting = {
            "type": "helloAck",
            "protocol": protocol,
            "version": __version__,
            "sessionId": session.id,
            "secret": session.secret,
            "daemonId": hub.daemon_id,
            "isOwner": hub.sessions.owner is session,
            "heartbeatSeconds": self.heartbeat_interval,
        }
        # In the kernel before any line is read: a bridge that never saw the greeting knows that no line was run.
        self._outbox.write_now(encode(json.dumps(greeting)))
        if self._farewell:
            self._say_goodbye(self._farewell)

    def _link(self) -> "TargetLink":
        # Loaded with the first bridge that names a target.
        from hearth.daemon.target_link import TargetLink

        self._target = TargetLink(self._send, self._outbox.drained, self._services.own_addresses)
        return self._target

    def _receive_line(self, seq: int, payload: bytes, resent: bool, replay: bool) -> None:
        if self.session is None:
            raise FrameError("a line before hello")
        if self._farewell:
            return
        self._taken = seq
        if len(payload) > self._message_limit:
            items: list[Item | json.Batch] = [self._assembler.receive_oversize()]
        else:
            items = self._assembler.receive_line(payload)
        if self._pieces or not items:
            items = self._settle_pieces(seq, items)
        self._pass_on(self.session, seq, items, resent, replay)

    def _settle_pieces(self, seq: int, items: list[Item | json.Batch]) -> list[Item | json.Batch]:
        """Finish the lines of a message that spans several; return the items that belong to line `seq`.

        An error that comes together with a message, or with the beginning of another, is about the lines before `seq`.
        """
        goes_on = self._assembler.pending
        if items:
            pieces, self._pieces = self._pieces, []
            if isinstance(items[0], WireError) and (len(items) > 1 or goes_on):
                self.answer(pieces.pop(0), messages.failure(getattr(items[0], "id", None), items[0]))
                items = items[1:]
            for piece in pieces:
                self.finish(piece)
        elif not goes_on:
            # A blank line.
            self.finish(seq)
        if goes_on:
            self._pieces.append(seq)
        return items

    # --- control

    def _receive_control(self, header: dict[str, Any], payload: bytes) -> None:
        if header["type"] != "reload":
            self._services.look_at_config()
        control.integer(header, "seq")
        self._begin(self._answer_control(header, payload))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_control(self, header: dict[str, Any], payload: bytes) -> None:
        api, kind, attributed = self._services.control, header["type"], self._attributed
        if kind == control.EVENTS_FRAME:
            await control.answer_events(api, header, self._send, self._outbox.drained)
        elif kind == control.HOOK_FRAME:
            self._send(*await hooks.answer_frame(api, header, payload, await self._find_pid()))
        elif kind in control.AGENT_FRAMES:
            # Loaded with the first of these frames.
            from hearth.daemon import agent_control

            frame = header, payload
            await agent_control.answer_frame(api, frame, self.session, attributed, self._send, self._outbox.drained)
        else:
            self._send(*await control.answer_frame(api, header, self.session, attributed))

    async def _find_pid(self) -> int | None:
        """Return the peer's process; over TCP it is looked up, and only where there is a policy."""
        if self._pid is None and self._services.hub.policy.guard is not None:
            peer, own = (self._outbox.transport.get_extra_info(name) for name in ("peername", "sockname"))
            if isinstance(peer, tuple) and isinstance(own, tuple):
                # Where it cannot be looked up, the process is unknown; the frame must be answered.
                with contextlib.suppress(OSError, ValueError):
                    self._pid = await asyncio.to_thread(peers.pid_of_tcp, peer[:2], own[:2])
        return self._pid

    async def _attributed(self) -> Session | None:
        return await self._services.attributed(await self._find_pid())

    # --- the session's client sink

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        if keep is None:
            self._outbox.write(encode(b'{"type":"mcp","re":%d}' % tag, payload))
        else:
            self._forget_drop(keep)
            self._send({"type": "mcp", "re": tag, "keep": keep}, payload)
        if drop is not None:
            self.drop_line(drop)
        if self._leaving:
            self._close_when_done()

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        self._ack.setdefault("done", []).append(tag)
        if keep is not None:
            self._forget_drop(keep)
            self._ack.setdefault("keep", {})[keep] = tag
        if drop is not None:
            self._ack.setdefault("drop", []).append(drop)
        if not self._receiving:
            self._flush_ack()

    def _flush_ack(self) -> None:
        if not self._ack:
            return
        if SEAMS:
            SEAMS.hit("before-ack")
        ack, self._ack = self._ack, {}
        done = ack.get("done", [])
        while len(done) > DONE_LIMIT:
            self._send({"type": "ack", "seq": self._taken, "done": done[:DONE_LIMIT]})
            done = ack["done"] = done[DONE_LIMIT:]
        self._send({"type": "ack", "seq": self._taken, **ack})
        if SEAMS:
            asyncio.get_running_loop().call_later(0, SEAMS.hit, "after-ack")

    def notify(self, payload: bytes, topic: str | None = None, about: int | None = None) -> None:
        self._outbox.write_notice(encode(b'{"type":"mcp"}', payload), topic)

    def tell(self, payload: bytes, about: int | None = None) -> None:
        self._outbox.write(encode(b'{"type":"mcp"}', payload))

    def ask(self, question: str, payload: bytes, about: int | None = None) -> None:
        self._send({"type": "mcp", "ask": question}, payload)

    def settled(self, question: str) -> None:
        self._ack.setdefault("answered", []).append(question)
        self._flush_ack()

    def keep_line(self, tag: int, key: str, line: bytes) -> None:
        self._forget_drop(key)
        self._send({"type": "keep", "seq": tag, "key": key}, line)

    def attend(self, tag: int, keep: str) -> None:
        self.finish(tag, keep)

    def drop_line(self, key: str) -> None:
        # An answer frame has no field for dropped keys; the next acknowledgement has.
        self._ack.setdefault("drop", []).append(key)
        if not self._receiving:
            self._flush_ack()

    def _forget_drop(self, key: str) -> None:
        """Cancel a pending drop of a key that is kept again.

        The bridge applies `drop` last, and an acknowledgement may wait: the drop would remove the new line.
        """
        if key in self._ack.get("drop", ()):
            self._ack["drop"].remove(key)

    def owner_changed(self, owner: str, is_owner: bool) -> None:
        self._send({"type": "ownerChanged", "sessionId": owner, "isOwner": is_owner})

    def _send(self, header: dict[str, Any], payload: bytes | Raw = b"") -> None:
        self._outbox.write(encode(json.dumps(header), bytes(payload)))

    # --- shutdown

    def drain(self, reconnect: bool, reason: str) -> None:
        """Take no further line; lines that were taken are still answered."""
        self._farewell = {"reconnect": reconnect, "reason": reason}
        if self.session:
            self._say_goodbye(self._farewell)

    def _say_goodbye(self, farewell: dict[str, Any]) -> None:
        self._send({"type": "goodbye", "taken": self._taken, **farewell})

    def _leave(self) -> None:
        self._leaving = True
        self._deadline = asyncio.get_running_loop().call_later(self._services.config.eof_timeout, self._outbox.abort)
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self.session is None or not self.session.open:
            self._flush_ack()
            self.close()

    def _refuse(self, exc: HearthError) -> None:
        if not isinstance(exc, NoRoom):
            # The acceptor has logged and counted the lack of room.
            log.info("a connection is refused: %s", exc)
            COUNTERS.connections_refused += 1
        self._send({"type": "error", "message": str(exc)[: control.SENTENCE_LIMIT]})
        self.close()

    def eof_received(self) -> bool:
        """Close the connection: a bridge that ends says goodbye first, so a bare EOF means that it is dead."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline:
            self._deadline.cancel()
        for task in self._tasks:
            task.cancel()
        if self._target:
            self._target.lost()
        super().connection_lost(exc)
