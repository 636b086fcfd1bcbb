"""What tells the revisions apart, and which one is agreed on."""

import pytest

from hearth.errors import MessageError
from hearth.mcp import versions
from hearth.wire.json import Raw

CAPABLE = {versions.CLIENT_CAPABILITIES_KEY: Raw(b"{}")}


@pytest.mark.parametrize("version", versions.LEGACY_VERSIONS)
def test_a_known_legacy_version_is_echoed(version: str) -> None:
    assert versions.negotiate(version) == version


@pytest.mark.parametrize("version", [None, "", "2099-01-01", versions.NEWEST_MODERN, 7])
def test_anything_else_gets_the_newest_legacy_one(version: object) -> None:
    assert versions.negotiate(version) == versions.NEWEST_LEGACY


def test_a_whole_envelope_is_accepted() -> None:
    versions.check_envelope({versions.PROTOCOL_VERSION_KEY: Raw(b'"2026-07-28"'), **CAPABLE})


def test_an_unknown_version_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(versions.UnsupportedVersion) as caught:
        versions.check_envelope({versions.PROTOCOL_VERSION_KEY: Raw(b'"2027-01-01"'), **CAPABLE})
    assert caught.value.rpc_code == -32022
    assert caught.value.data == {"requested": "2027-01-01", "supported": ["2026-07-28"]}


@pytest.mark.parametrize(
    "meta",
    [
        {versions.PROTOCOL_VERSION_KEY: Raw(b"7"), **CAPABLE},
        {versions.PROTOCOL_VERSION_KEY: Raw(b'"2026-07-28"')},
        # Both keys are looked for before the version is.
        {versions.PROTOCOL_VERSION_KEY: Raw(b'"2027-01-01"')},
        {versions.PROTOCOL_VERSION_KEY: Raw(b'"2026-07-28"'), versions.CLIENT_CAPABILITIES_KEY: Raw(b'"x"')},
        {versions.PROTOCOL_VERSION_KEY: Raw(b'"2026-07-28"'), **CAPABLE, versions.LOG_LEVEL_KEY: Raw(b'"loud"')},
    ],
)
def test_an_envelope_with_something_wrong_is_bad_params(meta: dict[str, Raw]) -> None:
    with pytest.raises(MessageError) as caught:
        versions.check_envelope(meta)
    assert caught.value.rpc_code == -32602
