"""Proxies: one that a plain request is sent to, and one that opens a tunnel."""

import asyncio

from support.sites.legacy import LegacySite
from support.sites.web import Reply, Request, Site


class ForwardProxy(LegacySite):
    """Stands for every server there is: requests name the whole address."""

    async def serve(self, request: Request, reply: Reply) -> None:
        if not request.target.startswith("http://"):
            self.faults.append(f"not for a proxy: {request.target}")
        await super().serve(request._replace(target="/" + request.target.split("/", 3)[3]), reply)


class TunnelProxy(Site):
    """Connects through to wherever it is asked to, or always to `instead`; `tunnels` has where that was."""

    def __init__(self, instead: str | None = None) -> None:
        super().__init__()
        self._instead = instead
        self.tunnels: list[str] = []
        self.refuses = False

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
        if method != "CONNECT":
            self.faults.append(f"{method} {target}")
        elif self.refuses:
            writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        else:
            self.tunnels.append(target)
            await _tunnel(self._instead or target, reader, writer)


async def _tunnel(target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    host, _, port = target.rpartition(":")
    far_reader, far_writer = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    try:
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
    finally:
        far_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
