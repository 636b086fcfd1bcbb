"""One authorization request: its address for the browser, and the check of what the browser comes back with. Pure."""

import hmac
import re
import secrets
from urllib.parse import parse_qsl

from oauthlib.common import add_params_to_uri
from oauthlib.oauth2 import WebApplicationClient

from hearth.errors import LoginFailed
from hearth.upstreams.oauth.metadata import Authority

# RFC 7636 4.1 has 43 to 128; more than that many characters of entropy are of no use.
_VERIFIER_CHARACTERS = 64
_STATE_BYTES = 32
_ERROR = re.compile(r"[a-z0-9_.-]{1,60}", re.IGNORECASE)
_OFFLINE = "offline_access"


class WrongState(LoginFailed):
    """What came back belongs to another login, or to nobody's: it is thrown away, and the right one waited for."""


class Attempt:
    """Expects one response, from one authorization server."""

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
        # Not the library's own: it takes no authorization server on this machine.
        self.url: str = add_params_to_uri(
            authority.authorization_endpoint, [(name, value) for name, value in parameters.items() if value]
        )

    def code(self, query: str) -> str:
        """The code in the query that the browser came back with. Raises WrongState, LoginFailed."""
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
        """RFC 9207 2.4, letter by letter; before anything else in the answer is looked at."""
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
        shown = error if _ERROR.fullmatch(error) else "an error without a name"
        return f"{self._authority.issuer} refused the login: {shown}"


def with_offline_access(scopes: tuple[str, ...], authority: Authority) -> tuple[str, ...]:
    """The scopes and, where the authorization server has that one, the one that makes it give refresh tokens."""
    is_wanted = _OFFLINE in authority.scopes and _OFFLINE not in scopes
    return (*scopes, _OFFLINE) if is_wanted else scopes
