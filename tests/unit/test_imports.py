"""Imports point downwards only. The arrows are those of the design, read from the syntax tree of every module."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2] / "service"

# Modules that import nothing of hearth but each other, and that anybody may use. "hearth" is the version.
FREE = {
    "hearth", "addresses", "errors", "paths", "places", "faults", "records", "sids", "socket_trust",
}  # fmt: skip

# What each part may use besides itself and FREE. A part is a package of hearth, or a module beside them.
ARROWS = {
    "__main__": {"cli", "bridge"},
    "cli": {"bridge", "clients", "config", "control_client", "daemon", "demo", "doctor", "findings", "host", "masking",
            "mcp", "ops", "output", "policy", "secret_patterns", "secrets", "stdio_client", "upstreams", "wire"},
    "demo": {"host", "stdio_client"},
    # The former name of the daemon.
    "server": set(),
    "daemon": {"config", "host", "hub", "masking", "mcp", "packs", "policy", "registry", "secrets",
               "wire", "write_batch"},
    "doctor": {"clients", "config", "control_client", "findings", "host", "ops", "output", "policy", "registry",
               "secret_patterns", "secrets", "upstreams"},
    "ops": {"clients", "config", "control_client", "host", "mcp", "output", "secret_patterns", "secrets",
            "stdio_client", "upstreams"},
    "control_client": {"bridge", "findings", "host", "registry", "wire"},
    "clients": {"config", "host", "mcp", "secret_patterns", "secrets"},
    "packs": {"config", "host", "hub", "masking", "mcp", "policy", "secrets", "upstreams", "wire", "write_batch"},
    "hub": {"config", "masking", "mcp", "policy", "upstreams", "wire"},
    "policy": {"config", "host", "masking", "mcp", "secret_patterns", "wire"},
    "upstreams": {"config", "host", "masking", "mcp", "secrets", "wire", "write_batch"},
    "mcp": {"masking", "wire"},
    "secrets": {"config", "host", "masking", "secret_patterns"},
    "config": {"masking", "secret_patterns"},
    "secret_patterns": {"masking"},
    "registry": {"host"},
    "bridge": {"wire", "host"},  # of each only what is in BRIDGE_MODULES
    "output": {"masking"},
    "findings": set(),
    "host": set(),
    "masking": set(),
    "stdio_client": set(),
    "wire": set(),
    "write_batch": set(),
}  # fmt: skip

# The bridge starts within milliseconds of the bare interpreter: it may load these, and they load only the standard
# library. The lock is the one at which bridge and daemon meet.
BRIDGE_MODULES = {
    "hearth", "hearth.errors", "hearth.paths", "hearth.faults", "hearth.wire", "hearth.wire.frames",
    "hearth.host", "hearth.host.macos", "hearth.host.windows",
    "hearth.host.macos.launchd", "hearth.host.locks", "hearth.host.folders",
    "hearth.host.windows.pipe_streams", "hearth.host.windows.task", "hearth.sids", "hearth.socket_trust",
    # Of a bridge with a target.
    "hearth.addresses",
}  # fmt: skip

# Bytes in, events out: these layers neither wait nor touch the system.
PURE = ("wire", "mcp")
IMPURE_MODULES = {"asyncio", "socket", "_socket", "os", "logging"}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of hearth, by its dotted name."""
    found = {}
    for path in sorted((ROOT / "hearth").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def is_package(name: str) -> bool:
    return (ROOT / Path(*name.split(".")) / "__init__.py").exists()


@cache
def imports(name: str, *, at_run_time: bool = False) -> set[str]:
    """What a module imports anywhere in it; on request without what only a type checker sees."""
    found: set[str] = set()
    for node in walk(modules()[name], at_run_time):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = absolute(name, node)
            found.update(
                f"{origin}.{alias.name}" if origin.split(".")[0] == "hearth" else origin for alias in node.names
            )
    return {module_of(item) if item.split(".")[0] == "hearth" else item for item in found}


def walk(node: ast.AST, at_run_time: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if (
            at_run_time
            and isinstance(child, ast.If)
            and isinstance(child.test, ast.Name)
            and child.test.id == "TYPE_CHECKING"
        ):
            continue
        yield child
        yield from walk(child, at_run_time)


def absolute(importer: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    base = importer.split(".")
    base = base[: len(base) - node.level + is_package(importer)]
    return ".".join([*base, node.module] if node.module else base)


def module_of(name: str) -> str:
    """The module that holds a name: `hearth.errors.WireError` is in `hearth.errors`."""
    while name not in modules():
        name, _, last = name.rpartition(".")
        assert name, f"nothing in hearth is called {last}"
    return name


def part_of(name: str) -> str:
    return name.split(".")[1] if "." in name else "hearth"


def parts_used(name: str) -> set[str]:
    return {part_of(item) for item in imports(name) if item.split(".")[0] == "hearth"} - {part_of(name)}


def test_every_part_has_its_place_in_the_design() -> None:
    assert {part_of(name) for name in modules()} - ARROWS.keys() - FREE == set()


def test_modules_import_downwards_only() -> None:
    upwards = {name: parts_used(name) - FREE - ARROWS.get(part_of(name), set()) for name in modules()}
    assert {name: parts for name, parts in upwards.items() if parts} == {}


def test_no_two_parts_import_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for name in modules():
        graph.setdefault(part_of(name), set()).update(parts_used(name))
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle
    TopologicalSorter(ARROWS).prepare()


def test_wire_and_mcp_do_no_io() -> None:
    pure = [name for name in modules() if part_of(name) in PURE]
    impure = {name: {item.split(".")[0] for item in imports(name)} & IMPURE_MODULES for name in pure}
    assert {name: found for name, found in impure.items() if found} == {}


def bridge_closure() -> set[str]:
    found: set[str] = set()
    waiting = {name for name in modules() if part_of(name) == "bridge"}
    while waiting:
        name = waiting.pop()
        found.add(name)
        loaded = {item for item in imports(name, at_run_time=True) if item in modules()}
        loaded |= {".".join(item.split(".")[:size]) for item in loaded for size in range(1, item.count(".") + 1)}
        waiting |= loaded - found
    return found


def test_the_bridge_loads_little_of_hearth() -> None:
    assert {name for name in bridge_closure() if part_of(name) != "bridge"} - BRIDGE_MODULES == set()


def test_what_the_bridge_loads_is_standard_library() -> None:
    for name in bridge_closure():
        others = {item.split(".")[0] for item in imports(name)} - {"hearth"} - sys.stdlib_module_names
        assert others == set(), name
        assert "asyncio" not in {item.split(".")[0] for item in imports(name)}, name


def test_a_bridge_without_a_target_loads_nothing_for_one() -> None:
    users = {name for name in modules() if part_of(name) == "bridge" and "hearth.bridge.target" in imports(name)}
    assert users == {"hearth.bridge.options"}
    body = modules()["hearth.bridge.options"].body
    assert not [node for node in body if isinstance(node, ast.ImportFrom) and "target" in (node.module or "")]


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, tree in modules().items() if not ast.get_docstring(tree)] == []


# Modules that may ask which platform this is, besides those of host/.
PLATFORM_MODULES = {"paths", "places", "bridge.connector", "bridge.activation", "bridge.client_io"}
# Security identifiers are Windows's own: the module is empty elsewhere. The bridge checks a socket's owner at each
# start, and does without the package host then.
PLATFORM_MODULES |= {"sids", "socket_trust", "bridge.spawn_posix", "bridge.spawn_windows"}
# Modules that still ask, to be moved behind functions of host/. The list may only get shorter.
PLATFORM_MODULES_LEFT = {
    "control_client.service_state",
    "control_client.windows_task",
    "daemon.main",
    "demo.scratch",
    "stdio_client",
}


def asks_for_platform(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "platform"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
        for node in ast.walk(tree)
    )


def test_only_host_asks_which_platform_this_is() -> None:
    asking = {name.removeprefix("hearth.") for name, tree in modules().items() if asks_for_platform(tree)}
    elsewhere = {name for name in asking if part_of(f"hearth.{name}") != "host"} - PLATFORM_MODULES
    assert elsewhere - PLATFORM_MODULES_LEFT == set()
    assert PLATFORM_MODULES_LEFT - elsewhere == set(), "take these off the list: they do not ask any more"
