"""Random, truncated and mutated inputs, made cheaply: a fuzzing run needs millions of them."""

from collections.abc import Callable
from random import Random

from hearth.policy.template import TEAM
from hearth.wire.frames import encode

_MESSAGES = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi","n":[1,2.5e3]}}}',
    b'{"jsonrpc":"2.0","id":"a\\u0062","method":"initialize","params":{"protocolVersion":"2025-06-18","_meta":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":0.5}}',
    b'{"jsonrpc":"2.0","id":-1.50e2,"result":{"content":[{"type":"text","text":"\\ud83d\\ude00 \\ud83d \\n"}]}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no","data":[null,true,false]}}',
    b'{\n  "jsonrpc": "2.0",\r\n  "id": 123456789012345678901234567890,\n  "method": "ping"\n}',
    '{"jsonrpc":"2.0","id":"é😀","method":"x","id":2,"é":{"a":{"b":{"c":[[[[{}]]]]}}}}'.encode(),
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    b'[{"jsonrpc":"2.0","method":"x","params":["\\ud83d"]},\n{"jsonrpc":"2.0","id":"b","result":{}},\n1\n]',
]
_STREAMS = [
    b"\n".join(_MESSAGES),
    b"Listening on port 3000\n" + _MESSAGES[0] + b"\r\n\r\n" + _MESSAGES[5] + b"\n" + _MESSAGES[2] + b"\n",
    b'{"jsonrpc":\n' + _MESSAGES[0] + b"\n[INFO] {\n" + _MESSAGES[3] + b"\n",
    b'{"type":"prompt","text":"hello"}\n',
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
]
_FRAMES = [
    encode(b'{"type":"hello","protocol":1,"pid":1,"cwd":"/"}') + encode(b'{"type":"mcp","seq":1}', _MESSAGES[0]),
    encode(b'{"type":"mcp","seq":2,"resent":true}', _MESSAGES[5]) + encode(b'{"type":"goodbye"}'),
    encode(b'{"type":"ack","seq":7,"done":[1,2],"keep":{"init":1}}') * 3,
]
WIRE = _MESSAGES + _STREAMS + _FRAMES

CONFIG = [
    b'idle_timeout = 60\nlog_level = "debug"\n[mcpServers.github]\ncommand = "npx"\nargs = ["-y", "x"]\n'
    b'env = { TOKEN = "${env:TOKEN}" }\n[mcpServers.web]\nurl = "https://example.com/mcp"\n',
    b'{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"A": "1"}, "disabled": true}}}',
    b'// a comment\n{"servers": {"a": {"type": "stdio", "command": "a", "cwd": "/tmp",},},}\n',
    b'\xef\xbb\xbf[mcpServers."a b"]\r\ncommand = """x"""\r\nstart_timeout = 1e3\r\n[owner]\r\napprove = "always"\r\n',
]

POLICY = [TEAM.encode(), b'default_role = "a"\n[roles.a]\ntools = ["x__*"]\n[[rules]]\ntool = "**"\ndecide = "ask"\n']

ARGUMENTS = [
    b'{"command": "git add -A && git commit -m \'x y\' && git push origin feature/x", "timeout": 5}',
    b'{"command": "pytest -q tests; make test | npm test || git status", "description": "x"}',
    b'{"command": "echo \\"$HOME\\" > ~/.config/hearth/policy.toml; cd .hearth && rm -rf *"}',
    b'{"file_path": "src/a.py", "offset": 1, "content": "x", "paths": [{"path": ".hearth/x"}]}',
]

_TOKENS = [
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\n", b"\r\n", b"\0", b"\xff", b"\xc3", b"null", b"true",
    b"-", b"0", b"1e9", b"1e999", b'"id":', b'"jsonrpc":"2.0",', b'"method":"x",', rb"\ud83d", rb"\udc00", rb"\u00",
    b'{"a":', b"[[[[", b"]]]]", b"\x00\x00\x00\x08\x00\x02{}", b"9" * 25, b"\x7fhearth lone surrogate:d83d",
    b"\xef\xbb\xbf", b"=", b'"""', b"#",
]  # fmt: skip
# Deep enough for the parsers to run out of stack, short enough to be scanned in a millisecond.
_DEPTH_LIMIT = 2_000


def make_input(random: Random, corpus: list[bytes]) -> bytes:
    """One input: mostly something valid that was damaged a little."""
    pick = random.random
    kind = pick()
    if kind < 0.05:
        return random.randbytes(int(pick() * 200))
    data = corpus[int(pick() * len(corpus))]
    if kind < 0.053:
        depth = int(pick() * _DEPTH_LIMIT)
        return data.replace(b"1", b"[" * depth + b"]" * depth, 1)
    if kind < 0.15:
        return data[: int(pick() * len(data))]
    for _ in range(1 + int(pick() * 4)):
        data = _mutate(data, pick, corpus)
    return data


def _mutate(data: bytes, pick: Callable[[], float], corpus: list[bytes]) -> bytes:
    at = int(pick() * (len(data) + 1))
    until = at + int(pick() * 16)
    kind = int(pick() * 6)
    if kind == 0:
        return data[:at] + data[until:]
    if kind == 1:
        return data[:until] + data[at:]
    if kind == 2:
        return data[:at] + bytes((int(pick() * 256),)) + data[at + 1 :]
    if kind == 3:
        other = corpus[int(pick() * len(corpus))]
        return data[:at] + other[int(pick() * len(other)) :]
    return data[:at] + _TOKENS[int(pick() * len(_TOKENS))] + data[at if kind == 4 else until :]
