"""The demo's MCP server as real clients meet it: the Python SDK in both eras, and a shell."""

import subprocess
import sys
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

SERVER = [sys.executable, "-I", "-m", "hearth.demo.server"]


async def use(mode: str) -> dict[str, Any]:
    parameters = StdioServerParameters(command=SERVER[0], args=SERVER[1:])
    seen: dict[str, Any] = {"progress": []}

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen["progress"].append((progress, total))

    async with Client(parameters, mode=mode) as client:
        seen["version"] = client.protocol_version
        seen["tools"] = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        seen["sum"] = (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text
        seen["counts"] = [(await client.call_tool("count", {})).content[0].text for _ in range(2)]
        await client.call_tool("slow", {"seconds": 0.05, "steps": 3}, progress_callback=on_progress)
        seen["refused"] = (await client.call_tool("add", {"a": "x", "b": 2})).is_error
    return seen


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_python_sdk_uses_every_tool_in_both_eras(mode: str, version: str) -> None:
    seen = anyio.run(use, mode)
    assert seen["version"] == version
    assert seen["tools"].keys() == {"add", "count", "slow", "whoami"}
    assert seen["tools"]["add"].read_only_hint is True
    assert seen["tools"]["count"].idempotent_hint is False
    assert (seen["sum"], seen["counts"], seen["refused"]) == ("3", ["1", "2"], True)
    assert seen["progress"] == [(1, 3), (2, 3), (3, 3)]


def test_the_server_ends_with_its_input_after_it_has_answered() -> None:
    done = subprocess.run(
        SERVER, input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', capture_output=True, timeout=30, check=True
    )
    assert done.stdout == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    assert done.stderr == b""


def test_a_client_that_has_gone_is_no_traceback() -> None:
    command = f'printf \'%s\\n%s\\n\' \'{{"id":1,"method":"ping"}}\' x | {" ".join(SERVER)} | true'
    assert subprocess.run(["sh", "-c", command], capture_output=True, timeout=30, check=True).stderr == b""


def test_only_the_standard_library_is_loaded() -> None:
    code = (
        "import sys; before = set(sys.modules); import hearth.demo.server;"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "['hearth']"
