"""Logging in, against a real authorization server: who Hearth is there, what it asks for, and what it believes."""

import json
import re
import signal
import socket
import stat
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from support.clients import text_of
from support.daemon import Scratch
from support.kernel import BOUND_SECONDS
from support.oauth import KEYRING, Authority, Command, browse, hearth, landing, log_in, quiet_port


def entry(scratch: Scratch, url: str, **keys: object) -> None:
    scratch.configure({"far": {"url": url, **keys}})


def logged_in(scratch: Scratch, url: str, **keys: object) -> None:
    """Make the entry and log in to it."""
    entry(scratch, url, **keys)
    assert log_in(scratch, "far")[0] == 0


def state(scratch: Scratch, name: str = "far") -> Any:
    code, out, err = hearth(scratch, "auth", "status", name, "--json")
    assert code == 0, err
    return json.loads(out)[0]


def echo(scratch: Scratch, name: str = "far") -> str:
    return text_of(scratch.lines().initialized().call(f"{name}__echo", text="hello"))


def query(url: str) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}


def test_a_login_is_good_for_every_client_of_a_daemon_that_runs_already(scratch: Scratch, authority: Authority) -> None:
    entry(scratch, authority.url)
    scratch.start(**KEYRING)
    client = scratch.lines().initialized()
    assert "hearth auth login far" in client.call("far__echo", text="x")["error"]["message"]
    code, out, _ = log_in(scratch, "far")
    assert code == 0 and "Logged in to far" in out
    assert text_of(client.call("far__echo", text="x")) == "x"
    assert echo(scratch) == "hello"
    assert authority.count("authorize") == 1


def test_the_request_is_what_the_specification_wants(scratch: Scratch, authority: Authority) -> None:
    entry(scratch, authority.url)
    command = Command(scratch, "auth", "login", "far", "--no-browser")
    asked = query(command.address())
    assert browse(command.said.split()[-1])[0] == 200
    assert command.end()[0] == 0
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["resource"] == authority.url
    assert asked["scope"] == "read"
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    (registered,) = authority.asked("register")
    assert registered["application_type"] == "native"
    assert registered["grant_types"] == ["authorization_code", "refresh_token"]
    assert authority.asked("authorize") == [
        {"resource": authority.url, "scopes": ["read"], "client": registered["client_id"]}
    ]


def test_servers_with_one_issuer_share_the_registration_and_not_the_tokens(
    scratch: Scratch, authority: Authority
) -> None:
    scratch.configure({"far": {"url": authority.url}, "near": {"url": authority.other}})
    assert log_in(scratch, "far")[0] == 0
    assert state(scratch, "near")["state"] == "not logged in"
    assert log_in(scratch, "near")[0] == 0
    assert authority.count("register") == 1
    assert [asked["resource"] for asked in authority.asked("authorize")] == [authority.url, authority.other]
    scratch.start(**KEYRING)
    assert (echo(scratch, "far"), echo(scratch, "near")) == ("hello", "hello")


@pytest.mark.parametrize("methods", [["none"], ["client_secret_basic"], ["client_secret_post"], None])
def test_a_registered_client_authenticates_as_the_authorization_server_wants(
    scratch: Scratch, authority: Authority, methods: list[str] | None
) -> None:
    authority.set(metadata={"token_endpoint_auth_methods_supported": methods}, lifetime=2)
    logged_in(scratch, authority.url)
    (registered,) = authority.asked("register")
    assert registered["token_endpoint_auth_method"] == (methods or ["none"])[0]
    authority.set(lifetime=3600, end_access=True)
    scratch.start(**KEYRING)
    assert echo(scratch) == "hello"
    assert authority.count("refresh") == 1


def test_a_client_that_the_config_names_is_used_with_its_secret(scratch: Scratch, authority: Authority) -> None:
    redirect = f"http://127.0.0.1:{quiet_port()}/return/here"
    authority.set(
        client={
            "client_id": "by-hand",
            "client_secret": "s3cret &%",
            "redirect_uris": [redirect],
            "token_endpoint_auth_method": "client_secret_basic",
            "grant_types": ["authorization_code", "refresh_token"],
            "scope": "read write",
        },
        metadata={"token_endpoint_auth_methods_supported": ["client_secret_basic"]},
    )
    secret = scratch.home / "secret"
    secret.write_text("s3cret &%\n")
    oauth = {
        "client_id": "by-hand",
        "client_secret": f"${{file:{secret}}}",
        "redirect_uri": redirect,
        "scopes": ["read", "write"],
    }
    entry(scratch, authority.url, oauth=oauth)
    code, out, err = log_in(scratch, "far")
    assert code == 0, err
    assert authority.count("register") == 0
    assert authority.asked("authorize")[0]["scopes"] == ["read", "write"]
    scratch.start(**KEYRING)
    authority.set(end_access=True)
    assert echo(scratch) == "hello"
    assert "s3cret" not in out + err + scratch.logged() + json.dumps(scratch.status())


def test_a_clients_document_is_used_where_the_authorization_server_reads_it(
    scratch: Scratch, authority: Authority
) -> None:
    redirect = f"http://127.0.0.1:{quiet_port()}/callback"
    authority.set(
        metadata={"client_id_metadata_document_supported": True},
        document={
            "redirect_uris": [redirect],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "scope": "read",
        },
    )
    document = f"{authority.origin}/client.json"
    logged_in(scratch, authority.url, oauth={"client_metadata_url": document, "redirect_uri": redirect})
    assert (authority.count("register"), state(scratch)["clientId"]) == (0, document)
    # Another authorization server does not read it: there, Hearth registers.
    with Authority() as other:
        logged_in(scratch, other.url, oauth={"client_metadata_url": document, "redirect_uri": redirect})
        assert (other.count("register"), other.count("document")) == (1, 0)


def example(language: str) -> str:
    """The worked example of the page for people."""
    page = (Path(__file__).parents[2] / "docs" / "oauth.md").read_text()
    section = page.partition("### A client-id metadata document")[2]
    found = re.search(rf"^ *```{language}\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_the_documented_client_id_document_logs_in_without_a_registration(
    scratch: Scratch, authority: Authority
) -> None:
    document = json.loads(example("json"))
    config = tomllib.loads(example("toml"))["mcpServers"]["tracker"]["oauth"]
    assert config["client_metadata_url"] == document.pop("client_id")
    assert document["redirect_uris"] == [config["redirect_uri"]]
    # The documented port may be another program's just now.
    redirect = re.sub(r":\d+/", f":{quiet_port()}/", config["redirect_uri"])
    # The test's authorization server asks for a scope that a client may have.
    authority.set(
        metadata={"client_id_metadata_document_supported": True, "registration_endpoint": None},
        document={**document, "redirect_uris": [redirect], "scope": "read"},
    )
    place = {"client_metadata_url": f"{authority.origin}/client.json", "redirect_uri": redirect}
    logged_in(scratch, authority.url, oauth={**config, **place})
    found = state(scratch)
    assert (found["client"], found["clientId"]) == ("document", place["client_metadata_url"])


@pytest.mark.parametrize("takes_documents", [False, True])
@pytest.mark.parametrize("endpoint", [None, "/no/registration"])
def test_a_refused_registration_is_a_hint_of_doctor_until_a_client_is_named(
    scratch: Scratch, authority: Authority, endpoint: str | None, takes_documents: bool
) -> None:
    def hints() -> list[dict[str, Any]]:
        findings = json.loads(hearth(scratch, "doctor", "--json")[1])["findings"]
        return [each for each in findings if each["id"] == "servers.registration"]

    entry(scratch, authority.url)
    assert hints() == []
    authority.set(
        metadata={
            "registration_endpoint": endpoint and authority.origin + endpoint,
            "client_id_metadata_document_supported": takes_documents,
        }
    )
    code, _, err = hearth(scratch, "auth", "login", "far", "--no-browser")
    assert code == 1 and "`oauth.client_id`" in err and ("`oauth.client_metadata_url`" in err) == takes_documents
    (hint,) = hints()
    assert authority.issuer in hint["message"] and hint["subject"] == "far"
    assert ("`oauth.client_metadata_url`" in hint["fix"]) == takes_documents
    entry(scratch, authority.url, oauth={"client_id": "by-hand"})
    assert hints() == []
    # Registered after all.
    entry(scratch, authority.url)
    authority.set(metadata={})
    assert log_in(scratch, "far")[0] == 0
    assert hints() == []


def test_what_the_header_does_not_say_is_found_at_the_well_known_places(scratch: Scratch, authority: Authority) -> None:
    authority.set(challenge='realm="x"')
    logged_in(scratch, authority.url)
    # Nothing was demanded: all that there is.
    assert authority.asked("authorize")[0]["scopes"] == ["read"]


def test_the_place_that_the_header_names_counts(scratch: Scratch, authority: Authority) -> None:
    place = f"{authority.origin}/elsewhere/.well-known/oauth-protected-resource/mcp"
    authority.set(challenge=f'resource_metadata="{place}", scope="read write"', places=False)
    logged_in(scratch, authority.url)
    assert authority.asked("authorize")[0]["scopes"] == ["read", "write"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another issuer": ({"metadata": {"issuer": "https://honest.example"}}, "not believed"),
    "an issuer without its slash": ({"metadata": {"issuer": "TRIMMED"}}, "not believed"),
    "no PKCE": ({"metadata": {"code_challenge_methods_supported": None}}, "PKCE"),
    "plain PKCE": ({"metadata": {"code_challenge_methods_supported": ["plain"]}}, "PKCE"),
    "a token endpoint without encryption": ({"metadata": {"token_endpoint": "http://far.example/token"}}, "https"),
    "another resource": ({"resource": {"resource": "https://other.example/mcp"}}, "tokens would be for another"),
    "a resource beside it": ({"resource": {"resource": "ORIGIN/mc"}}, "tokens would be for another"),
    "no authorization server": ({"resource": {"authorization_servers": []}}, "names no authorization server"),
    "no registration": ({"metadata": {"registration_endpoint": None}}, "oauth.client_id"),
}


def test_what_does_not_fit_is_refused_before_anybody_is_sent_there(scratch: Scratch, authority: Authority) -> None:
    entry(scratch, authority.url)
    for case, (wanted, words) in REFUSED.items():
        text = json.dumps(wanted).replace("TRIMMED", authority.origin).replace("ORIGIN", authority.origin)
        authority.set(**{"metadata": {}, "resource": {}, **json.loads(text)})
        code, out, err = hearth(scratch, "auth", "login", "far", "--no-browser")
        assert code == 1 and words in err and "http" not in out, case
    assert authority.count("authorize") == authority.count("token") == 0


def test_a_server_does_not_lead_the_login_to_an_address_of_another_network(
    scratch: Scratch, authority: Authority
) -> None:
    """The server is on loopback, and names an authorization server at this machine's address in its network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Sends nothing: the kernel chooses the address that it would send from.
        probe.connect(("203.0.113.1", 9))
        address = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    entry(scratch, authority.url)
    with socket.create_server((address, 0)) as listening:
        listening.setblocking(False)
        far = f"https://{address}:{listening.getsockname()[1]}"
        for wanted in (
            {"resource": {"authorization_servers": [far]}},
            {"metadata": {"authorization_endpoint": f"{far}/authorize"}},
            {"metadata": {"registration_endpoint": f"{far}/register"}},
        ):
            authority.set(**{"metadata": {}, "resource": {}, **wanted})
            code, out, err = hearth(scratch, "auth", "login", "far", "--no-browser")
            assert code == 1 and f"leads to {address}, a private address" in err and "http" not in out, err
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert authority.count("authorize") == authority.count("register") == 0


def test_an_answer_with_another_state_is_thrown_away_and_the_right_one_waited_for(
    scratch: Scratch, authority: Authority
) -> None:
    entry(scratch, authority.url)
    command = Command(scratch, "auth", "login", "far", "--no-browser")
    address = command.address()
    authority.set(state="forged")
    assert browse(address)[0] == 400
    redirect = query(address)["redirect_uri"]
    assert browse(f"{redirect}?error=access_denied")[0] == 400
    assert browse(f"{redirect}?code=x&state=")[0] == 400
    assert authority.count("token") == 0
    authority.set(state=None, iss=authority.issuer)
    assert browse(address)[0] == 400
    answer = landing(address)
    authority_state = query(address)["state"]
    assert browse(f"{answer}&state={authority_state}")[0] == 200
    assert command.end()[0] == 0


@pytest.mark.parametrize("case", ["another", "missing though promised"])
def test_an_answer_of_another_issuer_ends_the_login(scratch: Scratch, authority: Authority, case: str) -> None:
    if case == "another":
        authority.set(iss="https://attacker.example")
    else:
        authority.set(iss=None, metadata={"authorization_response_iss_parameter_supported": True})
    entry(scratch, authority.url)
    code, _, err = log_in(scratch, "far")
    assert code == 1 and authority.issuer in err and "attacker" not in err
    assert (authority.count("token"), state(scratch)["state"]) == (0, "not logged in")


def test_an_answer_without_an_issuer_will_do_where_none_was_promised(scratch: Scratch, authority: Authority) -> None:
    authority.set(iss=None)
    logged_in(scratch, authority.url)


def test_who_denies_it_is_told_so_and_nothing_changes(scratch: Scratch, authority: Authority) -> None:
    authority.set(denies=True)
    entry(scratch, authority.url)
    code, _, err = log_in(scratch, "far")
    assert code == 1 and "denied" in err
    assert state(scratch)["state"] == "not logged in"


def test_an_answer_may_be_pasted(scratch: Scratch, authority: Authority) -> None:
    entry(scratch, authority.url)
    command = Command(scratch, "auth", "login", "far", "--paste")
    code, out, err = command.end(landing(command.address()) + "\n")
    assert code == 0, err
    assert "Logged in to far" in out
    command = Command(scratch, "auth", "login", "far", "--paste")
    command.address()
    code, _, err = command.end("http://127.0.0.1:1/callback?code=x&state=y\n")
    assert code == 1 and "does not belong to this login" in err


def test_a_browser_is_opened_where_there_is_one(scratch: Scratch, authority: Authority) -> None:
    entry(scratch, authority.url)
    opened = scratch.home / "opened"
    script = scratch.home / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {opened}.new; mv {opened}.new {opened}\n')
    script.chmod(0o755)
    command = Command(scratch, "auth", "login", "far", BROWSER=str(script))
    address = command.address()
    browse(address)
    assert command.end()[0] == 0
    assert opened.read_text().strip() == address


def test_waiting_is_bounded_and_may_be_interrupted(scratch: Scratch, authority: Authority) -> None:
    entry(scratch, authority.url)
    code, _, err = hearth(scratch, "auth", "login", "far", "--no-browser", "--timeout", "1")
    assert code == 1 and "did not come back within 1 s" in err
    command = Command(scratch, "auth", "login", "far", "--no-browser")
    command.address()
    command.process.send_signal(signal.SIGINT)
    code, _, err = command.end()
    assert (code, err.strip()) == (130, "hearth: interrupted.")


def test_the_tokens_are_in_a_private_file_and_nowhere_else(scratch: Scratch, authority: Authority) -> None:
    entry(scratch, authority.url)
    scratch.start(**KEYRING)
    code, out, err = log_in(scratch, "far")
    assert code == 0
    assert echo(scratch) == "hello"
    with_tokens = [path for path in _files(scratch.home) if b"access-" in path.read_bytes()]
    assert [path.name for path in with_tokens] == ["oauth.values.json"]
    assert stat.S_IMODE(with_tokens[0].stat().st_mode) == 0o600
    shown = out + err + json.dumps(scratch.status()) + "".join(hearth(scratch, "auth", "status", "--json")[1:])
    assert "access-" not in shown and "refresh-" not in shown


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_logging_out_ends_the_tokens_here_and_there(scratch: Scratch, authority: Authority) -> None:
    entry(scratch, authority.url)
    scratch.start(**KEYRING)
    assert log_in(scratch, "far")[0] == 0
    assert echo(scratch) == "hello"
    code, out, err = hearth(scratch, "auth", "logout", "far")
    assert (code, err) == (0, "") and "ended there" in out
    assert authority.count("revoke") == 2
    assert state(scratch)["state"] == "needs login"
    assert not [path for path in _files(scratch.home) if b"access-" in path.read_bytes()]
    assert "hearth auth login far" in scratch.lines().initialized().call("far__echo", text="x")["error"]["message"]
    assert "Nobody was logged in" in hearth(scratch, "auth", "logout", "far")[1]


def test_a_logout_is_one_also_where_the_authorization_server_is_gone(scratch: Scratch) -> None:
    with Authority() as authority:
        logged_in(scratch, authority.url)
    code, out, err = hearth(scratch, "auth", "logout", "far")
    assert code == 0 and "Logged out" in out and "cannot be reached" in err
    assert not [path for path in _files(scratch.home) if b"access-" in path.read_bytes()]


def test_a_header_in_the_config_wins(scratch: Scratch, authority: Authority) -> None:
    logged_in(scratch, authority.url)
    entry(scratch, authority.url, headers={"authorization": "Bearer by-hand"})
    scratch.start(**KEYRING)
    assert echo(scratch) == "hello"
    assert authority.count("by hand") > 0 and authority.count("401") == 1
    assert state(scratch)["state"] == "own header"


@pytest.mark.parametrize(
    ("words", "config", "said"),
    [
        (("login", "nobody"), {"far": {"url": "http://127.0.0.1:1/mcp"}}, "there is no server 'nobody'"),
        (("logout", "local"), {"local": {"command": "true"}}, "started by a command"),
        (("login", "far"), {"far": {"url": "http://far.example/mcp"}}, "not https"),
        (("login", "far"), {"far": {"url": "unix:/tmp/x.sock"}}, "Unix socket"),
        (("login", "far"), {"far": {"url": "https://x.example", "headers": {"authorization": "x"}}}, "remove it first"),
        (("login", "far"), {"far": {"url": "http://127.0.0.1:1/mcp"}}, "cannot be reached"),
    ],
)
def test_what_cannot_be_logged_in_to_is_said(scratch: Scratch, words: Any, config: Any, said: str) -> None:
    scratch.configure(config)
    code, _, err = hearth(scratch, "auth", *words)
    assert code in (1, 2) and said in err


def test_a_port_that_is_taken_is_replaced_by_another_and_registered_anew(
    scratch: Scratch, authority: Authority
) -> None:
    logged_in(scratch, authority.url)
    first = Command(scratch, "auth", "login", "far", "--no-browser")
    address = first.address()
    second = Command(scratch, "auth", "login", "far", "--no-browser")
    assert query(second.address())["redirect_uri"] != query(address)["redirect_uri"]
    second.process.terminate()
    second.process.wait(BOUND_SECONDS)
    second.end()
    browse(address)
    assert first.end()[0] == 0
    scratch.start(**KEYRING)
    authority.set(end_access=True)
    assert echo(scratch) == "hello"


def test_a_server_of_2025_03_26_is_logged_in_to_at_its_own_root(scratch: Scratch, authority: Authority) -> None:
    authority.set(places=False, challenge='realm="old"')
    logged_in(scratch, authority.url)
    scratch.start(**KEYRING)
    assert echo(scratch) == "hello"
