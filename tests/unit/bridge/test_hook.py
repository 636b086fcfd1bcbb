"""The command line of `hearth hook`, and that its table of events is that of the formats."""

import pytest

from hearth.bridge import hook
from hearth.bridge.options import UsageError
from hearth.policy import hook_formats


def test_the_events_whose_failure_denies_nothing_are_those_that_decide_nothing() -> None:
    known = {event for events in hook_formats.EVENTS.values() for event in events} | {hook_formats.WORKER_EXIT}
    deciding = {
        event for client in hook_formats.CLIENTS for event in known if event in hook_formats.EVENTS[client]
        if hook_formats.decides(client, event)
    }  # fmt: skip
    assert known - deciding == hook.PASSING_EVENTS


def test_limits_and_clients_are_those_of_the_daemon() -> None:
    assert hook.PAYLOAD_LIMIT_BYTES == hook_formats.PAYLOAD_LIMIT_BYTES
    assert hook.CLIENTS == hook_formats.CLIENTS


def test_options_stand_anywhere_and_after_a_space_or_an_equals_sign() -> None:
    found = hook.parse(["--client=codex", "stop", "--wait", "9", "--token-file", "/t", "--profile", "work"])
    assert (found.event, found.client, found.wait, found.token_file, found.places.key) == (
        *("stop", "codex", 9.0, "/t"),
        "work",
    )


def test_the_environment_of_the_client_names_no_other_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = hook.parse(["stop", "--client", "gemini"]).places
    monkeypatch.setenv("HEARTH_CONFIG", "/elsewhere/c.toml")
    monkeypatch.setenv("HEARTH_SOCKET", "/elsewhere/daemon.sock")
    found = hook.parse(["stop", "--client", "gemini"]).places
    assert (found.config_file(), found.policy_file(), found.socket) == (
        *(usual.config_file(), usual.policy_file()),
        usual.socket,
    )
    assert hook.parse(["stop", "--client", "gemini", "--config", "/c.toml"]).places.config_file() == "/c.toml"


def test_the_default_wait_is_above_the_daemons_own() -> None:
    from hearth.hub.authorization.hooks import HookSettings

    assert hook.parse(["stop", "--client", "claude"]).wait == hook.WAIT_SECONDS > HookSettings().wait


def test_help_is_no_error() -> None:
    with pytest.raises(UsageError) as told:
        hook.parse(["--help"])
    assert told.value.exit_code == 0 and str(told.value) == hook.USAGE
