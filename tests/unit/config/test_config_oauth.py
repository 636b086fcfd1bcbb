"""The table `oauth` of a server's entry."""

import json

import pytest
from config_reading import config_of, examined

from hearth.config import OAuthSpec, show
from hearth.secrets import references

ENTRY = "[mcpServers.far]\nurl = 'https://x.example/mcp'\n"


def oauth(text: str) -> OAuthSpec:
    return config_of(f"{ENTRY}oauth = {text}").servers["far"].oauth


def test_everything_that_may_be_set_is_taken() -> None:
    found = oauth(
        '{ client_id = "me", client_secret = "${file:/x}", scopes = ["a", "b"], issuer = "https://auth.example",'
        ' client_metadata_url = "https://me.example/client.json", redirect_uri = "http://localhost:8080/callback" }'
    )
    assert found == OAuthSpec(
        client_id="me",
        client_secret="${file:/x}",
        scopes=("a", "b"),
        issuer="https://auth.example",
        client_metadata_url="https://me.example/client.json",
        redirect_uri="http://localhost:8080/callback",
    )
    assert oauth("{}") == OAuthSpec()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3", "oauth must be a table"),
        ("{ clientId = 'x' }", "oauth.clientId is not a key that is known here; known: client_id"),
        ("{ client_id = 7 }", "oauth.client_id must be a text, not a number"),
        ("{ scopes = 'read' }", "oauth.scopes must be a list of texts"),
        ("{ scopes = ['a', 2] }", "oauth.scopes.1 must be a text"),
        ("{ issuer = 'http://auth.example' }", "oauth.issuer must be an address that begins with https://"),
        ("{ issuer = 'auth.example' }", "oauth.issuer must be an address"),
        ("{ client_metadata_url = 'https://x.example' }", "and has a path"),
        ("{ redirect_uri = 'https://x.example/back' }", "http://127.0.0.1 or http://localhost"),
        ("{ redirect_uri = 'http://localhost.evil.example/back' }", "http://127.0.0.1 or http://localhost"),
        ("{ redirect_uri = 'http://localhost:80' }", "and has a path"),
    ],
)
def test_what_cannot_be_is_told_with_its_line_and_key(text: str, words: str) -> None:
    (problem,) = examined(f"{ENTRY}oauth = {text}", "c.toml").problems
    assert problem.startswith("c.toml:3: server 'far'") and words in problem


def test_other_clients_names_are_taken_in_json_and_what_means_nothing_here_is_ignored() -> None:
    entry = {"url": "https://x.example/mcp", "oauth": {"clientId": "me", "callbackPort": 80, "enabled": True}}
    found = examined(json.dumps({"mcpServers": {"far": entry}}), "c.json")
    assert found.problems == [] and len(found.warnings) == 2
    assert found.config.servers["far"].oauth == OAuthSpec(client_id="me")


def test_it_does_nothing_without_a_url() -> None:
    found = examined("[mcpServers.a]\ncommand = 'x'\noauth = { client_id = 'me' }", "c.toml")
    assert found.warnings == ["c.toml:3: server 'a': oauth does nothing without a url"]
    assert examined("[mcpServers.a]\ncommand = 'x'\n").warnings == []


def test_the_secret_is_shown_nowhere_and_its_reference_is() -> None:
    for written, shown in (("s3cr3t-value", "***"), ("${keyring:far}", "${keyring:far}")):
        spec = config_of(f"{ENTRY}oauth = {{ client_id = 'me', client_secret = '{written}' }}").servers["far"]
        assert show.server(spec)["oauth"] == {"client_id": "me", "client_secret": shown}
        assert "s3cr3t" not in repr(spec) + repr(spec.oauth)


def test_references_in_it_are_resolved_and_what_they_stand_for_is_hidden() -> None:
    spec = config_of(f"{ENTRY}oauth = {{ client_id = '${{WHO}}', client_secret = '${{WORD}}' }}").servers["far"]
    found = references.resolve(spec, {"WHO": "me", "WORD": "abracadabra"})
    assert (found.spec.oauth.client_id, found.spec.oauth.client_secret) == ("me", "abracadabra")
    assert "abracadabra" not in found.mask("it says abracadabra")
