"""References in a server's entry, and the environment that the server's process gets.

    ${NAME}  ${NAME:-default}  ${env:NAME}   a variable of the daemon's environment
    ${workspaceFolder}                       the folder of the client, where the process is not shared
    ${file:PATH}                             a file's content without its last line end
    $${                                      a literal ${

Resolved when a server starts and given to its process only: what is resolved is never stored, shown or
logged, hence messages name variables and files, not values. A text in braces that looks like none of these,
as in a shell script (`${x%.*}`), stays as it is. Reads the files that references name; does no other I/O.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from hearth.config import ServerSpec, addresses
from hearth.config.loading import read_file
from hearth.errors import ConfigError
from hearth.paths import home_dir

# Tokens and keys are short; whoever names a large file named the wrong one.
SECRET_FILE_LIMIT_BYTES = 64 * 1024

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_KIND = re.compile(r"([a-z]+):(.*)", re.DOTALL)
# A shell's own: ${x:-…} is ours too, but ${x:=…}, ${x:?…}, ${x:+…}, ${x: -1} and ${x:3} are scripts.
_SHELL_OPERATORS = frozenset("-=?+ 0123456789")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What other clients, or a later Hearth, resolve; here they would reach the server as they are written.
_NOT_HERE = {
    "keyring": "references to a keyring are not available in this version",
    "cred": "references to systemd credentials are not available in this version",
    "input": "it asks a person in VS Code, which a daemon cannot",
    "command": "it runs a command in VS Code, which Hearth does not",
    "config": "it is a setting of VS Code, which Hearth does not read",
}
_KNOWN = {"env", "file", *_NOT_HERE}
# Other clients' names for the folder that is worked in.
WORKSPACE_VARIABLES = ("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR", "PWD")
_ELSEWHERE = "use ${NAME} with a variable, or ${file:PATH}"

# What a program needs to find itself, its user, its language, its temporary files. Everything else in the
# daemon's environment, tokens above all, is for those servers whose entries name it.
_ALLOWED = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR"})
_ALLOWED_PREFIXES = ("LC_", "XDG_")
# Behind a proxy, or with a company's own authority, nothing is reached or downloaded without these.
_ALLOWED_FOR_THE_NETWORK = frozenset(
    {
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    }
)
# Without these, programs on Windows do not even start.
_ALLOWED_ON_WINDOWS = frozenset(
    {
        *(
            "APPDATA",
            "LOCALAPPDATA",
            "PROGRAMDATA",
            "PROGRAMFILES",
            "PROGRAMFILES(X86)",
            "COMMONPROGRAMFILES",
        ),
        *("HOMEDRIVE", "HOMEPATH", "USERNAME", "USERPROFILE", "TEMP", "TMP"),
        *("SYSTEMDRIVE", "SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "OS"),
        *("NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"),
    }
)


class _Unresolved(Exception):
    """A reference that leads nowhere; the message is a sentence."""


def resolve(spec: ServerSpec, environ: Mapping[str, str], folder: str | None = None) -> ServerSpec:
    """The entry with every reference replaced, to be used once and forgotten.

    `folder` is that of the one client, or of the one workspace, which the process is for: a relative `cwd` is taken
    from it. Without one the process is shared, and a relative `cwd` is taken from the user's home.
    Raises ConfigError with one sentence for each reference that leads nowhere, naming the server and the key.
    """
    problems: list[str] = []
    environ = {**environ, **dict.fromkeys(WORKSPACE_VARIABLES, folder)} if folder else environ

    def filled(value: str, key: str) -> str:
        try:
            return fill(value, environ)
        except _Unresolved as exc:
            problems.append(f"server {spec.name!r}: {key}: {exc}")
            return value

    resolved = spec.replace(
        command=spec.command and _from_home(filled(spec.command, "command")),
        args=tuple(filled(value, f"args.{number}") for number, value in enumerate(spec.args)),
        env=_filled_map(spec.env, "env", filled),
        cwd=spec.cwd and os.path.join(folder or home_dir(), _from_home(filled(spec.cwd, "cwd"))),
        url=spec.url and _url_from_home(filled(spec.url, "url")),
        headers=_filled_map(spec.headers, "headers", filled),
    )
    problems.extend(f"server {spec.name!r}: {sentence}" for sentence in _unusable(resolved))
    if problems:
        raise ConfigError(problems)
    return resolved


def _unusable(spec: ServerSpec) -> Iterator[str]:
    """What a reference has made of a value that was right as written."""
    for key in ("command", "cwd", "url"):
        if getattr(spec, key) == "":
            yield f"{key} is empty once its references are resolved"
    if spec.url and not spec.url.startswith("${") and (phrase := addresses.fault(spec.url)):
        yield f"url {phrase} once its references are resolved"
    for name, value in spec.headers.items():
        if "\n" in value or "\r" in value:
            yield f"headers.{name} has a line end in it once its references are resolved"


def unresolved(specs: Iterable[ServerSpec], environ: Mapping[str, str]) -> list[str]:
    """A sentence for each reference that would lead nowhere in this environment, whatever the client's folder."""
    problems: list[str] = []
    for spec in specs:
        try:
            resolve(spec, environ, None if spec.isolation == "shared" else home_dir())
        except ConfigError as exc:
            problems.extend(exc.problems)
    return problems


def traces(spec: ServerSpec, environ: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """Each reference of an entry as written, and what it stands for now; None for one that leads nowhere.

    For telling whether anything that the entry depends on has changed: hash it, and keep nothing of it.
    """
    texts = (spec.command, *spec.args, *spec.env.values(), spec.cwd, spec.url, *spec.headers.values())
    written = [match.group() for text in texts if text for match in _REFERENCE.finditer(text)]
    return [(reference, _trace(reference, environ)) for reference in dict.fromkeys(written)]


def _trace(reference: str, environ: Mapping[str, str]) -> str | None:
    try:
        return fill(reference, environ)
    except _Unresolved:
        return None


def _filled_map(values: Mapping[str, str], key: str, filled: Callable[[str, str], str]) -> Mapping[str, str]:
    return MappingProxyType({name: filled(value, f"{key}.{name}") for name, value in values.items()})


def _from_home(path: str) -> str:
    # As a shell would; there is none between the config and the program.
    return home_dir() + path[1:] if path == "~" or path.startswith(("~/", "~" + os.sep)) else path


def _url_from_home(url: str) -> str:
    prefix = addresses.UNIX + "~/"
    return addresses.UNIX + _from_home(url.removeprefix(addresses.UNIX)) if url.startswith(prefix) else url


def fill(text: str, environ: Mapping[str, str]) -> str:
    """The text with its references replaced."""
    return _REFERENCE.sub(lambda match: _value(match, environ), text) if "${" in text else text


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    written, inner = match.group(), match.group(1)
    if inner is None:
        return "${"
    found = _KIND.fullmatch(inner)
    if found is None or found[2][:1] in _SHELL_OPERATORS or (not found[2] and found[1] not in _KNOWN):
        return _variable(inner, environ, otherwise=written)
    kind, name = found.groups()
    if not name:
        raise _Unresolved(f"{written} names nothing")
    if kind == "file":
        return _file(name)
    if kind != "env":
        raise _Unresolved(f"{written} cannot be resolved: {_NOT_HERE.get(kind, _ELSEWHERE)}")
    return _variable(name, environ)


def _variable(written: str, environ: Mapping[str, str], otherwise: str | None = None) -> str:
    name, colon, default = written.partition(":-")
    if not _VARIABLE.fullmatch(name):
        if otherwise is not None:
            return otherwise
        raise _Unresolved(f"{name!r} is not the name of a variable")
    found = environ.get(name)
    if colon:
        return found or default  # as in a shell, an empty value is replaced too
    if found is None and name in WORKSPACE_VARIABLES:
        raise _Unresolved(f"{name} is a client's folder, and a shared server has none; set isolation to workspace")
    if found is None:
        raise _Unresolved(
            f"the variable {name} is not set in the daemon's environment;"
            f" set it there, or write ${{{name}:-…}} to give it a default"
        )
    return found


def _file(name: str) -> str:
    path = os.path.join(home_dir(), _from_home(name))
    try:
        data = read_file(path, SECRET_FILE_LIMIT_BYTES)
    except ConfigError as exc:
        raise _Unresolved(f"the file {exc}") from exc
    if data is None:
        raise _Unresolved(f"the file {path} does not exist")
    try:
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise _Unresolved(f"the file {path} is not text in UTF-8") from None
    if "\0" in text:
        raise _Unresolved(f"the file {path} has a NUL character in it, which no program can be given")
    return text


def child_environment(spec: ServerSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the server's process: an allow-list of the daemon's, and what the entry names."""
    environment = {name: value for name, value in environ.items() if _is_passed_on(name, value)}
    environment.setdefault("PATH", os.defpath)
    environment.setdefault("HOME", home_dir())
    environment.update(spec.env)
    return environment


def _is_passed_on(name: str, value: str) -> bool:
    if value.startswith("()"):
        return False  # a function that bash exported; it would be run by a shell that is not patched
    if sys.platform == "win32" and name.upper() in _ALLOWED_ON_WINDOWS:
        return True
    return name in _ALLOWED or name in _ALLOWED_FOR_THE_NETWORK or name.startswith(_ALLOWED_PREFIXES)
