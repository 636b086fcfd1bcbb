"""Whatever the bytes: a config, or problems that are sentences. Nothing else is ever raised."""

import random

import pytest
from config_reading import examined
from hypothesis import example, given
from hypothesis import strategies as st

TOML = b"""# a comment
idle_timeout = 60
message_limit = "64 MiB"
allowed_uids = [ 1000, 1001 ]
owner = { approve = "never" }
[mcpServers.a]
command = "npx"
args = [
  '-y', \"\"\"long
  text\"\"\", # odd
]
env = { A = "${B}", "c.d" = 'e' }
[mcpServers."b c"]
url = 'https://example.com/'
"""
JSON = b"""{
  // comment
  "idle_timeout": 1e1, "owner": {"approve": "always"}, "other": [null, true, {"\\u00e4": -0.5}],
  "mcpServers": {"a": {"command": "x", "args": ["-y", ], "env": {"A": "\\ud83d\\ude00"}, "timeout": 3},
    "b": {"httpUrl": "http://x", "headers": {"A": "b"}, "disabled": false}, },
}"""
# Enough to hit each token of the two texts several times; the long run is the fuzz target's.
MUTATIONS = 3000


def check(data: bytes, name: str) -> None:
    found = examined(data, name)
    assert all(isinstance(problem, str) and problem.startswith(name) for problem in found.problems)
    found.warn_of_repeated_keys()
    for setting in ("idle_timeout", "owner.approve"):
        assert found.origin(setting)
    for server in found.config.servers:
        assert found.server_origin(server).startswith(name)


@given(st.binary(max_size=200), st.sampled_from(["c.toml", "c.json", "c"]))
@example(b"\xff\xfe\x00", "c.toml")
@example(b"\xff\xfe\xd8\x00", "c")
@example(b"a=0x" + b"f" * 9999, "c.toml")
@example(b"message_limit='" + b"9" * 9999 + b" MiB'", "c.toml")
def test_any_bytes_are_a_config_or_have_problems(data: bytes, name: str) -> None:
    check(data, name)


@given(st.text(st.sampled_from("[]{}=,.:\"'\\#/*\n ab1\x00\ud800"), max_size=60), st.sampled_from(["c.toml", "c.json"]))
def test_any_heap_of_tokens_is_a_config_or_has_problems(text: str, name: str) -> None:
    check(text.encode("utf-8", "surrogatepass"), name)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)
SETTINGS = st.sampled_from(["idle_timeout", "message_limit", "max_connections", "allowed_uids", "log_level", "owner"])
ENTRY_KEYS = st.sampled_from(
    ["command", "args", "env", "cwd", "url", "headers", "disabled", "era", "start_timeout", "httpUrl", "type"]
)


@given(
    st.dictionaries(SETTINGS, VALUES, max_size=4),
    st.dictionaries(
        st.text(max_size=4), st.one_of(VALUES, st.dictionaries(ENTRY_KEYS, VALUES, max_size=4)), max_size=3
    ),
)
def test_any_values_under_the_known_keys_are_taken_or_refused(
    settings: dict[str, object], servers: dict[str, object]
) -> None:
    import json

    check(json.dumps({**settings, "mcpServers": servers}, indent=1).encode(), "c.json")


@pytest.mark.parametrize(("text", "name"), [(TOML, "c.toml"), (JSON, "c.json")])
def test_a_good_config_with_some_bytes_wrong_is_a_config_or_has_problems(text: bytes, name: str) -> None:
    assert examined(text, name).problems == []
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(MUTATIONS):
        data = bytearray(text)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data))
            data[at : at + chance.randint(0, 3)] = chance.choice(
                [b"", b'"', b"\n", b"[", b"}", b"\\", bytes([at % 256])]
            )
        check(bytes(data), name)
