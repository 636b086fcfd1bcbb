"""Who a bridge is to an HTTP server: given headers, references in them, stored logins; certificates and proxies."""

from pathlib import Path

import pytest

from process.remote_bridge import bridge_to
from support.certificates import Authority as CertificateAuthority
from support.clients import text_of
from support.daemon import Scratch
from support.kernel import until
from support.oauth import Authority, Command, log_in
from support.sites.legacy import LegacySite
from support.sites.modern import ModernSite
from support.sites.tunnel import ForwardProxy, TunnelProxy
from support.sites.web import Reply, Request

KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
SECRET = "s3cret-value"


def test_headers_are_sent_with_every_request_and_their_references_filled_in(scratch: Scratch) -> None:
    (scratch.home / "token").write_text(f"{SECRET}\n")
    code, _, said = Command(scratch, "secret", "set", "far").end(SECRET)
    assert code == 0, said
    words = (
        *("--header", "Authorization: Bearer ${keyring:far}"),
        *("--header", "X-File: ${file:~/token}"),
        *("--header", "x-variable: ${env:GIVEN} ${OTHER:-default}"),
        *("--header", "X-Plain: $${as it is}"),
    )
    extra = {"GIVEN": SECRET, **KEYRING}
    with LegacySite() as site, bridge_to(site.url, *words, scratch=scratch, extra=extra) as bridge:
        bridge.open()
        assert text_of(bridge.call("echo", text="x")) == "x"
        until(lambda: site.listening, "the server's own stream is open")
        bridge.leave()
        until(lambda: site.deleted, "the session was given back")
        for request in site.requests:
            assert request.headers["authorization"] == f"Bearer {SECRET}"
            assert request.headers["x-file"] == SECRET
            assert request.headers["x-variable"] == f"{SECRET} default"
            assert request.headers["x-plain"] == "${as it is}"
        assert {request.method for request in site.requests} == {"POST", "GET", "DELETE"}
        assert SECRET not in bridge.stderr()
        assert SECRET not in scratch.log.read_text()


def test_a_reference_that_leads_nowhere_is_told_and_looked_up_again(scratch: Scratch) -> None:
    words = ("--header", "X-File: ${file:~/later} ${env:HOME}")
    with ModernSite() as site, bridge_to(site.url, *words, scratch=scratch) as bridge:
        error = bridge.ask("tools/list", _modern=True)["error"]
        assert error["code"] == -32603 and "later does not exist" in error["message"]
        assert site.requests == []
        (scratch.home / "later").write_text("now")
        assert "result" in bridge.ask("tools/list", _modern=True)
        assert site.requests[0].headers["x-file"] == f"now {scratch.home}"


def test_an_unset_variable_is_said_to_be_the_bridges() -> None:
    with ModernSite() as site, bridge_to(site.url, "--header", "X: ${env:NOT_SET}") as bridge:
        message = bridge.ask("tools/list", _modern=True)["error"]["message"]
        assert "NOT_SET is not set in the bridge's environment" in message
        assert site.requests == []


def test_a_value_that_http_cannot_carry_is_told_without_showing_it(scratch: Scratch) -> None:
    (scratch.home / "token").write_text(f"{SECRET}-\N{EURO SIGN}")
    with ModernSite() as site, bridge_to(site.url, "--header", "X: ${file:~/token}", scratch=scratch) as bridge:
        message = bridge.ask("tools/list", _modern=True)["error"]["message"]
        assert "a header given by --header has a character that HTTP cannot carry" in message
        assert SECRET not in message and site.requests == []
    assert "internal error" not in scratch.logged()


class Guarded(ModernSite):
    """Lets in who has the token of the moment."""

    token = "first"

    async def serve(self, request: Request, reply: Reply) -> None:
        if request.headers.get("authorization") == f"Bearer {self.token}":
            await super().serve(request, reply)
        else:
            await reply.send(401)


def test_a_token_that_was_rotated_is_looked_up_again(scratch: Scratch) -> None:
    file = scratch.home / "token"
    file.write_text("first")
    words = ("--header", "Authorization: Bearer ${file:~/token}")
    with Guarded() as site, bridge_to(site.url, *words, scratch=scratch) as bridge:
        assert "result" in bridge.ask("tools/list", _modern=True)
        # Refused, too, it would be a second lookup that changes nothing, and the next one would not be made at once.
        until(lambda: site.seen("subscriptions/listen"), "the server's own stream is open")
        site.token = "second"
        assert "HTTP 401" in bridge.call_modern("echo", text="x")["error"]["message"]
        # The same again would be refused again.
        assert len(site.seen("tools/call")) == 1
        file.write_text("second")
        ids = [bridge.begin("tools/call", _modern=True, name="echo", arguments={"text": "x"}) for _ in range(5)]
        assert [text_of(bridge.answer_to(id)) for id in ids] == ["x"] * 5
        assert "result" in bridge.ask("tools/list", _modern=True)
        assert len(site.seen("tools/call")) <= 1 + 2 * len(ids)


# --- logins


@pytest.fixture
def far(scratch: Scratch) -> Authority:
    """An authorization server, and the config's entry for the MCP server that wants its tokens."""
    opened = scratch.own(Authority())
    scratch.configure({"far": {"url": opened.url}})
    return opened


def test_a_stored_login_is_used_and_refreshed(scratch: Scratch, far: Authority) -> None:
    code, _, said = log_in(scratch, "far")
    assert code == 0, said
    with bridge_to(far.url, scratch=scratch, extra=KEYRING) as bridge:
        assert text_of(bridge.call_modern("echo", text="logged in")) == "logged in"
        assert (far.count("refresh"), far.count("401")) == (0, far.count("401"))
        before = far.count("401")
        far.set(end_access=True)
        ids = [bridge.begin("tools/call", _modern=True, name="echo", arguments={"text": "x"}) for _ in range(5)]
        assert [text_of(bridge.answer_to(id)) for id in ids] == ["x"] * 5
        assert (far.count("refresh"), far.count("reuse")) == (1, 0)
        assert far.count("401") > before
        bridge.open()
        assert text_of(bridge.call("echo", text="legacy")) == "legacy"
        assert bridge.leave() == []
        assert "Bearer" not in bridge.stderr()


def test_a_login_made_meanwhile_is_used_by_a_bridge_that_runs(scratch: Scratch, far: Authority) -> None:
    with bridge_to(far.url, scratch=scratch, extra=KEYRING) as bridge:
        error = bridge.ask("tools/list", _modern=True)["error"]
        assert error["code"] == -32603 and "hearth auth login far" in error["message"]
        code, _, said = log_in(scratch, "far")
        assert code == 0, said
        assert "result" in bridge.ask("tools/list", _modern=True)


def test_who_has_no_entry_is_told_to_make_one(scratch: Scratch, far: Authority) -> None:
    scratch.configure({})
    with bridge_to(far.url, scratch=scratch, extra=KEYRING) as bridge:
        message = bridge.ask("tools/list", _modern=True)["error"]["message"]
        assert "hearth add NAME --url URL" in message and "hearth auth login NAME" in message


def test_a_header_of_ones_own_wins_over_a_login(scratch: Scratch, far: Authority) -> None:
    code, _, said = log_in(scratch, "far")
    assert code == 0, said
    words = ("--header", "authorization: Bearer wrong")
    with bridge_to(far.url, *words, scratch=scratch, extra=KEYRING) as bridge:
        assert "HTTP 401" in bridge.ask("tools/list", _modern=True)["error"]["message"]
        assert far.count("refresh") == 0


# --- certificates


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", None])
def test_a_certificate_is_verified_by_the_bridges_variables(variable: str | None, tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    extra = {variable: str(authority.file)} if variable else {}
    with LegacySite(tls=authority.context) as site, bridge_to(site.url, extra=extra) as bridge:
        if variable:
            bridge.open()
            ids = [bridge.begin("tools/call", name="echo", arguments={"text": "x" * 100_000}) for _ in range(5)]
            assert [len(text_of(bridge.answer_to(id))) for id in ids] == [100_000] * 5
            cancelled = bridge.begin("tools/call", name="hang", arguments={})
            bridge.next_called("notifications/message")
            bridge.cancel(cancelled)
            assert text_of(bridge.call("drop")) == "resumed"
            bridge.leave()
            until(lambda: len(site.deleted) == 1, "the session was given back")
        else:
            message = bridge.ask("tools/list", _modern=True)["error"]["message"]
            assert "certificate that is not trusted" in message
            assert "SSL_CERT_FILE in the bridge's environment" in message
            assert site.requests == []


def test_a_proxy_is_asked_for_what_is_not_encrypted() -> None:
    with ForwardProxy() as proxy:
        extra = {"HTTP_PROXY": f"http://me:word@127.0.0.1:{proxy.port}"}
        with bridge_to("http://server.example/mcp", extra=extra) as bridge:
            bridge.open()
            assert text_of(bridge.call("echo", text="x")) == "x"
            bridge.leave()
        assert {request.target for request in proxy.requests} == {"http://server.example/mcp"}
        assert {request.headers["host"] for request in proxy.requests} == {"server.example"}
        assert {request.headers["proxy-authorization"] for request in proxy.requests} == {"Basic bWU6d29yZA=="}


def test_what_is_encrypted_goes_through_a_tunnel_past_the_eyes_of_the_proxy(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path, "DNS:server.example")
    with LegacySite(tls=authority.context) as site, TunnelProxy(instead=f"127.0.0.1:{site.port}") as proxy:
        extra = {"https_proxy": f"http://127.0.0.1:{proxy.port}", "SSL_CERT_FILE": str(authority.file)}
        with bridge_to("https://server.example/mcp", extra=extra) as bridge:
            bridge.open()
            assert text_of(bridge.call("echo", text="x")) == "x"
            bridge.leave()
        assert set(proxy.tunnels) == {"server.example:443"} and proxy.faults == []
        assert not any("proxy-authorization" in request.headers for request in site.requests)


def test_a_proxy_that_refuses_or_is_not_there_is_named() -> None:
    with TunnelProxy() as proxy:
        proxy.refuses = True
        with bridge_to("https://server.example/mcp", extra={"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"}) as bridge:
            message = bridge.ask("tools/list", _modern=True)["error"]["message"]
            assert "through the proxy (407" in message and "HTTPS_PROXY" in message
            proxy.close()
            message = bridge.ask("tools/list", _modern=True)["error"]["message"]
            assert "cannot be reached (Connection refused)" in message
    with bridge_to("http://server.example/mcp", extra={"ALL_PROXY": "socks5://127.0.0.1:1"}) as bridge:
        assert "a proxy variable names a SOCKS proxy" in bridge.ask("tools/list", _modern=True)["error"]["message"]


def test_a_server_of_this_machine_is_not_looked_for_behind_a_proxy() -> None:
    with ModernSite() as site, bridge_to(site.url, extra={"HTTP_PROXY": "http://127.0.0.1:1"}) as bridge:
        assert "result" in bridge.ask("tools/list", _modern=True)
