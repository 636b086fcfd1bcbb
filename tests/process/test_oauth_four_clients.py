"""One account, four clients, and an authorization server whose refresh tokens are good for one use.

The clients are sessions of the official SDK with its own OAuth. Alone, they share one stored login, as the sessions of
one client program do; a refresh token that two of them use ends the login for all. Through Hearth they have none.
"""

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from support.daemon import Scratch
from support.http.conversation import bounded
from support.oauth import KEYRING, Authority, landing, log_in
from support.scripted_daemon import SCRIPT

CLIENTS = 4
HOURS = 3
CALLBACK = "http://127.0.0.1:9/callback"


class Store(TokenStorage):
    """The file of a client program: every session of it reads it at its start, and writes new tokens to it."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class LoginLost(Exception):
    """A person would have to log in again."""


class Alone:
    """A client with a login of its own program. The first to come logs in; nobody is there to do it again."""

    def __init__(self, url: str, store: Store) -> None:
        self.url = url
        self.lost = False
        self._store = store
        self._address = ""
        metadata = OAuthClientMetadata(client_name="alone", redirect_uris=[CALLBACK], token_endpoint_auth_method="none")
        self.provider = OAuthClientProvider(url, metadata, store, self._redirect, self._callback)

    async def _redirect(self, address: str) -> None:
        if self._store.tokens is not None:
            self.lost = True
            raise LoginLost
        self._address = address

    async def _callback(self) -> AuthorizationCodeResult:
        answer = parse_qs(urlsplit(await asyncio.to_thread(landing, self._address)).query)
        return AuthorizationCodeResult(**{name: value for name, (value,) in answer.items()})

    def start(self) -> None:
        """Run in a task of its own, as a program of its own does: it ends when its login is lost."""
        self._texts: asyncio.Queue[tuple[str, asyncio.Future[str]] | None] = asyncio.Queue()
        self.task = asyncio.create_task(self._live())

    async def _live(self) -> None:
        async with (
            httpx2.AsyncClient(auth=self.provider, timeout=20) as http,
            Client(streamable_http_client(self.url, http_client=http), read_timeout_seconds=20) as client,
        ):
            while (asked := await self._texts.get()) is not None:
                asked[1].set_result(await echo(client, asked[0]))

    async def call(self, text: str) -> str:
        """Return the answer to a call; an empty text where the login is lost, in that call or before."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._texts.put_nowait((text, answer))
        await bounded(asyncio.wait({answer, self.task}, return_when=asyncio.FIRST_COMPLETED))
        return answer.result() if answer.done() else ""

    def leave(self) -> None:
        self._texts.put_nowait(None)

    def an_hour_later(self) -> None:
        """Let its access token be over, by the clock that the client goes by."""
        self.provider.context.token_expiry_time = time.time() - 1


async def echo(client: Client, text: str) -> str:
    result = await bounded(client.call_tool("echo", {"text": text}))
    return str(result.content[0].text)  # type: ignore[union-attr]


EXPECTED = [str(number) for number in range(CLIENTS)]


@pytest.mark.timeout(120)
async def test_alone_four_clients_lose_their_login(authority: Authority) -> None:
    store = Store()
    clients = [Alone(authority.url, store) for _ in range(CLIENTS)]
    for number, each in enumerate(clients):
        each.start()
        assert await each.call(str(number)) == str(number)
    assert authority.count("authorize") == 1
    for _ in range(2):
        authority.set(end_access=True)
        for each in clients:
            each.an_hour_later()
        await asyncio.gather(*(each.call("x") for each in clients))
    assert [each.lost for each in clients] == [True] * CLIENTS
    for each in clients:
        each.leave()
    await asyncio.gather(*(each.task for each in clients), return_exceptions=True)
    assert authority.count("reuse") >= 1


@pytest.mark.timeout(120)
async def test_through_hearth_none_of_four_clients_loses_its_login(scratch: Scratch, authority: Authority) -> None:
    scratch.configure({"far": {"url": authority.url}})
    code, _, err = log_in(scratch, "far")
    assert code == 0, err
    scratch.start(**KEYRING)
    words = ["-I", "-S", str(SCRIPT), "--server", "far"]
    command = StdioServerParameters(command=sys.executable, args=words, env=scratch.environment())

    async def all_echo(clients: list[Client]) -> list[str]:
        return list(await asyncio.gather(*(echo(client, str(number)) for number, client in enumerate(clients))))

    async with AsyncExitStack() as stack:
        opened = [Client(command, read_timeout_seconds=20) for _ in range(CLIENTS)]
        clients = [await stack.enter_async_context(client) for client in opened]
        assert await all_echo(clients) == EXPECTED
        for _ in range(HOURS):
            authority.set(end_access=True, slow=0.1)
            assert await all_echo(clients) == EXPECTED
    assert (authority.count("authorize"), authority.count("refresh"), authority.count("reuse")) == (1, HOURS, 0)
