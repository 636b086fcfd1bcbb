"""Authorization request for the browser, and the loopback listener for its response.

The listener serves one HTTP page and nothing else. Any website may send a browser to any address of this machine, so
the listener trusts nothing that arrives: it passes the query to the request, which knows the login's state.
"""

import asyncio
import hmac
import html
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, urlsplit

from oauthlib.common import add_params_to_uri
from oauthlib.oauth2 import WebApplicationClient

from hearth.errors import LoginFailed
from hearth.upstreams.oauth.metadata import Authority, error_code

# RFC 7636 4.1 allows 43 to 128; more entropy than this is of no use.
_VERIFIER_CHARACTERS = 64
_STATE_BYTES = 32
_OFFLINE = "offline_access"
HOST = "127.0.0.1"
DEFAULT_URI = "http://127.0.0.1/callback"
# A browser's request line and headers: codes have some hundred characters, cookies of other localhost pages more.
REQUEST_LIMIT_BYTES = 64 * 1024
REQUEST_SECONDS = 10.0

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Hearth</title>
<style>body{{font:16px system-ui,sans-serif;margin:15vh auto;max-width:34em;padding:0 1em}}</style>
<h1>{title}</h1><p>{text}</p></html>
"""

# Takes the query of the browser's response; returns the text for the page. Raises LoginFailed.
Return = Callable[[str], Awaitable[str]]


class Redirect:
    """Listener for the browser's redirect. `uri` is its address with the port."""

    uri: str
    _server: asyncio.Server

    def __init__(self, path: str) -> None:
        self._path = path
        self._on_return: Return | None = None
        self._begin: tuple[str, str] | None = None

    @classmethod
    async def open(cls, uri: str | None, preferred: str | None = None) -> "Redirect":
        """Listen at the uri; without a port in it, at the former port, or at any. Raises LoginFailed."""
        wanted = urlsplit(uri or DEFAULT_URI)
        former = urlsplit(preferred or "").port
        ports = [wanted.port] if wanted.port else [former, 0] if former else [0]
        found = cls(wanted.path)
        for port in ports:
            try:
                found._server = await asyncio.start_server(found._accept, HOST, port, limit=REQUEST_LIMIT_BYTES)
            except OSError as exc:
                problem = exc
                continue
            taken = found._server.sockets[0].getsockname()[1]
            found.uri = f"http://{wanted.hostname or HOST}:{taken}{wanted.path}"
            return found
        raise LoginFailed(
            f"nothing can listen on {HOST}:{ports[0]} ({problem.strerror}), where the browser is to come back to:"
            " end what does, or change `oauth.redirect_uri` of the entry and at the authorization server"
        )

    def expect(self, on_return: Return, begin: tuple[str, str] | None = None) -> None:
        """Pass the response to `on_return`. `begin`: a path that redirects to the login, and the login's address."""
        self._on_return = on_return
        self._begin = begin

    async def close(self) -> None:
        """Stop listening."""
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await self._answer(head.partition(b"\r\n")[0].decode("latin-1").split(" ")))
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a scanner, or a browser that was closed
        finally:
            writer.close()

    async def _answer(self, words: list[str]) -> bytes:
        path, _, query = (words[1] if len(words) == 3 else "").partition("?")
        if words[0] != "GET":
            return _response(405, "Nothing here", "")
        if self._begin and path == self._begin[0]:
            return _response(302, "", "", self._begin[1])
        if path != self._path or self._on_return is None:
            return _response(404, "Nothing here", "")
        try:
            return _response(200, "Logged in", await self._on_return(query))
        except WrongState:
            return _response(400, "Not logged in", "This answer does not belong to the login that is waited for.")
        except LoginFailed as exc:
            return _response(400, "Not logged in", str(exc))


def _response(status: int, title: str, text: str, location: str | None = None) -> bytes:
    body = _PAGE.format(title=html.escape(title), text=html.escape(text)).encode()
    lines = [
        f"HTTP/1.1 {status} {title or 'Found'}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        # The address contains a code.
        "Cache-Control: no-store",
        "Referrer-Policy: no-referrer",
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'",
        "Connection: close",
        *([f"Location: {location}"] if location else []),
    ]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


class WrongState(LoginFailed):
    """Error for a response of another login, or of none: the listener drops it, and still waits for the right one."""


class AuthorizationRequest:
    """Authorization request: its address for the browser, and the check of the one response to it."""

    def __init__(
        self, authority: Authority, client_id: str, resource: str, scopes: tuple[str, ...], redirect_uri: str
    ) -> None:
        self._authority = authority
        self._state = secrets.token_urlsafe(_STATE_BYTES)
        self.redirect_uri = redirect_uri
        self.scopes = with_offline_access(scopes, authority)
        client = WebApplicationClient(client_id)
        self.verifier: str = client.create_code_verifier(_VERIFIER_CHARACTERS)
        parameters = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self.scopes),
            "state": self._state,
            "code_challenge": client.create_code_challenge(self.verifier, "S256"),
            "code_challenge_method": "S256",
            "resource": resource,
        }
        # Not the library's own function, which accepts no authorization server on this machine.
        self.url: str = add_params_to_uri(
            authority.authorization_endpoint, [(name, value) for name, value in parameters.items() if value]
        )

    def code(self, query: str) -> str:
        """Return the code in the query of the browser's response. Raises WrongState, LoginFailed."""
        pairs = parse_qsl(query, keep_blank_values=True)
        found = dict(pairs)
        if len(found) != len(pairs):
            raise WrongState("the answer has a parameter twice")
        if not hmac.compare_digest(found.get("state", "").encode(), self._state.encode()):
            raise WrongState("the answer does not belong to this login (its state is another one)")
        self._check_issuer(found.get("iss"))
        error = found.get("error")
        if error is not None:
            raise LoginFailed(self._refusal(error))
        if not found.get("code"):
            raise LoginFailed(f"{self._authority.issuer} sent the browser back without a code")
        return found["code"]

    def _check_issuer(self, given: str | None) -> None:
        """Compare the issuer exactly (RFC 9207 2.4), before anything else in the response is used."""
        if given is None and not self._authority.names_itself:
            return
        if given != self._authority.issuer:
            raise LoginFailed(
                f"the answer does not come from {self._authority.issuer}, which was asked; it is not used"
                if given is not None
                else f"the answer does not say that it comes from {self._authority.issuer}; it is not used"
            )

    def _refusal(self, error: str) -> str:
        if error == "access_denied":
            return f"{self._authority.issuer} says that access was denied"
        return f"{self._authority.issuer} refused the login: {error_code(error) or 'an error without a name'}"


def with_offline_access(scopes: tuple[str, ...], authority: Authority) -> tuple[str, ...]:
    """Return the scopes, plus the one for refresh tokens if the authorization server has it."""
    is_wanted = _OFFLINE in authority.scopes and _OFFLINE not in scopes
    return (*scopes, _OFFLINE) if is_wanted else scopes
