"""Package that a command line runs, seen through the runners that start MCP servers. Pure text: nothing is looked up.

    npx -y @scope/name@1.2 …      uvx --from name==1.2 tool …     python -m module …
    docker run -i --rm image …    node /x/node_modules/name/…     cmd /c npx name …

Several names are possible (`--from`, `--with`), and one may be wrong: it only chooses how a server is shared at first.
"""

import re
from collections.abc import Callable, Iterator, Sequence

# Wrappers inside wrappers; deeper nesting does not occur in practice.
_DEPTH = 4

_EXECUTABLE = re.compile(r"\.(exe|cmd|bat|ps1)$")
_PYTHON = re.compile(r"(python|pypy)w?[0-9.]*|py")
# Version, extras or markers of a requirement, or an npm version; not the `@` that begins a scope.
_AFTER_NAME = re.compile(r"(?<=.)[@\[=<>!~; ].*")
_SCRIPT = re.compile(r"\.(py|pyz|[cm]?js|[cm]?ts|rb|sh|jar|php|pl)$")
# Stems and folders that every package has; the folder above them tells more.
_GENERIC = frozenset(
    {"index", "server", "main", "cli", "mcp", "app", "run", "start", "stdio", "__main__"}
    | {"dist", "build", "src", "bin", "lib", "out", "target", "release", "debug", "scripts", ".bin", "."}
)

_INTERPRETERS = frozenset({"node", "nodejs", "deno", "bun", "tsx", "ts-node", "ruby", "java", "php", "perl"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
# Programs whose arguments are, or end in, another command line.
_WRAPPERS = frozenset(
    {"env", "sudo", "nice", "ionice", "stdbuf", "setsid", "nohup", "caffeinate", "time", "exec", "timeout", "wsl"}
)
_WRAPPERS_WITH_DASHES = frozenset({"op", "doppler", "mise", "dotenv", "infisical", "direnv", "fnm", "volta", "nix"})

# Options that take the next word; any other word with a dash is assumed to stand alone.
_NPX_VALUES = frozenset({"-p", "--package", "-c", "--call", "--registry", "--cache", "--prefix", "-w", "--workspace"})
_UV_VALUES = frozenset(
    {"--from", "--with", "--with-editable", "--with-requirements", "-p", "--python", "--directory", "--project"}
    | {"-i", "--index", "--index-url", "--default-index", "--extra-index-url", "-f", "--find-links", "--env-file"}
    | {"--group", "--extra", "--package", "--cache-dir", "--config-file", "-c", "--constraint", "--refresh-package"}
)
_PYTHON_VALUES = frozenset({"-W", "-X"})
_NODE_VALUES = frozenset({"-r", "--require", "--import", "--loader", "--env-file", "-cp", "--conditions"})
_PIPX_VALUES = frozenset({"--spec", "--python", "--pip-args", "--index-url", "-i"})
# Options of a container runtime that stand alone; all others take the next word.
_CONTAINER_FLAGS = re.compile(
    r"-[itdPq]+|--(rm|init|interactive|tty|detach|privileged|read-only|publish-all|quiet|sig-proxy|no-healthcheck)"
)
_NAMING = frozenset({"-p", "--package", "--from", "--with", "--spec"})


def packages(command: str, args: Sequence[str]) -> list[str]:
    """Return the names of what the command line may run, most specific first, in lower case and without versions."""
    return [name for name in dict.fromkeys(map(_plain, _found(command, list(args), _DEPTH))) if name]


def scripts(command: str, args: Sequence[str]) -> list[str]:
    """Return the files that an interpreter is given to run, as they are written."""
    if base(command) in _CONTAINERS:
        return []  # its own files, not ours
    words = [command, *args]
    runs = [index for index, word in enumerate(words) if _is_interpreter(base(word))]
    return [word for word in words[runs[0] + 1 :] if _SCRIPT.search(word.lower())][:1] if runs else []


def folder(command: str, args: Sequence[str]) -> str | None:
    """Return the folder that a runner is told to change to first, as in `uv --directory X run …`."""
    options = ("--directory",) if base(command) == "uv" else ()
    for index, word in enumerate(args):
        option, equals, value = word.partition("=")
        if option in options:
            return value if equals else next(iter(args[index + 1 : index + 2]), None)
    return None


def base(command: str) -> str:
    """Return the name of a program without its folder and without a Windows suffix."""
    return _EXECUTABLE.sub("", re.split(r"[/\\]", command)[-1].lower())


def _is_interpreter(name: str) -> bool:
    return bool(_PYTHON.fullmatch(name)) or name in _INTERPRETERS | _SHELLS | {"uv"}


def _found(command: str, args: list[str], depth: int) -> Iterator[str]:
    name = base(command)
    inner = _inner(name, args)
    if inner:
        if depth:
            yield from _found(inner[0], inner[1:], depth - 1)
        return
    for runs, reader in _READERS:
        if runs(name):
            yield from reader(name, args, depth)
            return
    yield _of_path(command) if "/" in command or "\\" in command else name


def _inner(name: str, args: list[str]) -> list[str]:
    """Return the command line inside another; empty if there is none."""
    if name in _SHELLS or name == "cmd":
        flags = ("/c", "/k") if name == "cmd" else ("-c", "-lc", "-ic", "-lic")
        at = next((index for index, word in enumerate(args) if word.lower() in flags), -1)
        # `cmd` takes the words as they are, a shell takes one text.
        return [word.strip("\"'") for word in " ".join(args[at + 1 :]).split()] if at >= 0 else []
    if name in _WRAPPERS:
        words = [word for word in args if not word.startswith("-") and "=" not in word.split("/")[0]]
        return args[args.index(next((word for word in words if not word[:1].isdigit()), words[0])) :] if words else []
    if name in _WRAPPERS_WITH_DASHES:
        return args[args.index("--") + 1 :] if "--" in args else []
    return []


def _split(args: Sequence[str], valued: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the packages that options name, and the words from the first one that is no option."""
    named: list[str] = []
    index = 0
    while index < len(args) and args[index].startswith("-") and args[index] != "--":
        option, equals, value = args[index].partition("=")
        if option in valued and not equals:
            index += 1
            value = args[index] if index < len(args) else ""
        if option in _NAMING and value:
            named.append(value)
        index += 1
    return named, [word for word in args[index:] if word != "--"]


def _npm(name: str, args: list[str], depth: int) -> Iterator[str]:
    if name in ("npm", "pnpm", "yarn", "bun"):
        _, rest = _split(args, _NPX_VALUES)
        if not rest or rest[0] not in ("exec", "x", "dlx"):
            yield from _node(name, args, depth)
            return
        args = rest[1:]
    named, rest = _split(args, _NPX_VALUES)
    yield from named
    yield from rest[:1]


def _uv(name: str, args: list[str], depth: int) -> Iterator[str]:
    if name == "uv":
        _, rest = _split(args, _UV_VALUES)
        # uvx executes `uv tool uvx`.
        is_tool = rest[:2] in (["tool", "run"], ["tool", "uvx"])
        if not is_tool and rest[:1] != ["run"]:
            return
        args = rest[2:] if is_tool else rest[1:]
    named, rest = _split(args, _UV_VALUES)
    # `--with mcp` names what the server is written with, so it comes after what the server is.
    if {"-m", "--module"} & {*args[: len(args) - len(rest)]} or name == "uvx":
        yield from [*named, *rest[:1]]
    elif rest:
        yield from [*_found(rest[0], rest[1:], depth - 1)] if depth else []
        yield from named


def _pipx(name: str, args: list[str], depth: int) -> Iterator[str]:
    if args[:1] == ["run"]:
        named, rest = _split(args[1:], _PIPX_VALUES)
        yield from [*named, *rest[:1]]


def _python(name: str, args: list[str], depth: int) -> Iterator[str]:
    for index, word in enumerate(args):
        if word == "-m":
            yield from (module.split(".")[0] for module in args[index + 1 : index + 2])
        if word in ("-m", "-c"):
            return
        if not word.startswith("-") and args[index - 1 : index] not in [[option] for option in _PYTHON_VALUES]:
            yield _of_path(word)
            return


def _node(name: str, args: list[str], depth: int) -> Iterator[str]:
    _, rest = _split(args, _NODE_VALUES)
    rest = rest[1:] if rest[:1] == ["run"] and name in ("deno", "bun") else rest
    _, rest = _split(rest, _NODE_VALUES)
    for word in rest[:1]:
        yield word[4:] if word.startswith(("npm:", "jsr:")) else _of_path(word)


def _container(name: str, args: list[str], depth: int) -> Iterator[str]:
    if "run" not in args[:3]:
        return
    index = args.index("run") + 1
    while index < len(args) and args[index].startswith("-"):
        stands_alone = "=" in args[index] or _CONTAINER_FLAGS.fullmatch(args[index])
        index += 1 if stands_alone else 2
    # Without the registry's port, the tag and the digest.
    for image in args[index : index + 1]:
        yield re.sub(r":[^/]*$", "", image.split("@")[0])


def _of_path(path: str) -> str:
    """Return what a script or a program belongs to: its npm package, or the nearest specific name."""
    parts = [part for part in re.split(r"[/\\]", path) if part]
    if "node_modules" in parts:
        inside = parts[len(parts) - parts[::-1].index("node_modules") :]
        if inside[:1] != [".bin"]:
            return "/".join(inside[: 2 if inside[0].startswith("@") else 1]) if inside else ""
    stems = (_SCRIPT.sub("", _EXECUTABLE.sub("", part.lower())) for part in reversed(parts))
    return next((stem for stem in stems if stem not in _GENERIC), "")


def _plain(name: str) -> str:
    if "://" in name or name.startswith(("github:", "git@")):
        # A repository: its own name, without revision, archive suffix and the owner.
        tail = re.split(r"[#?]", name)[0].rstrip("/").split("/")[-1]
        name = re.sub(r"@.*|\.git$", "", tail).removesuffix(".git")
    return _AFTER_NAME.sub("", name.strip()).lower().replace("_", "-")


_Reader = Callable[[str, list[str], int], Iterator[str]]
_READERS: tuple[tuple[Callable[[str], object], _Reader], ...] = (
    ({"npx", "bunx", "pnpx", "npm", "pnpm", "yarn", "bun"}.__contains__, _npm),
    ({"uv", "uvx"}.__contains__, _uv),
    ({"pipx"}.__contains__, _pipx),
    (_PYTHON.fullmatch, _python),
    ((_INTERPRETERS | _SHELLS).__contains__, _node),
    (_CONTAINERS.__contains__, _container),
)
