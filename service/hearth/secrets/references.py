"""References in a server's entry, and the environment that the server's process gets.

    ${NAME}  ${NAME:-default}  ${env:NAME}   a variable of the daemon's environment
    ${workspaceFolder}                       the client's folder, if the process is not shared
    ${file:PATH}                             a file's content without its last line end
    ${keyring:NAME}                          the value stored by `hearth secret set NAME`
    ${cred:NAME}                             a credential that systemd passed to the daemon
    $${                                      a literal ${

References are resolved when a server starts, and passed to its process only. Resolved values are never stored, shown
or logged: messages name variables and files, not values, and a mask hides the values in the server's own output. A text
in braces that matches none of these, as in a shell script (`${x%.*}`), stays unchanged. This module reads the files
that references name, and asks the keyring, which may block.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from hearth import addresses
from hearth.config import OAuthSpec, ServerSpec
from hearth.config.loader import read_file
from hearth.errors import ConfigError, VaultError
from hearth.host import system
from hearth.masking import Mask
from hearth.paths import home_dir

if TYPE_CHECKING:
    from hearth.secrets.vault import Vault

# Tokens and keys are short; a large file is the wrong one.
SECRET_FILE_LIMIT_BYTES = 64 * 1024

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_KIND = re.compile(r"([a-z]+):(.*)", re.DOTALL)
# Operators of the shell: ${x:-…} is ours too, but ${x:=…}, ${x:?…}, ${x:+…}, ${x: -1} and ${x:3} are scripts.
_SHELL_OPERATORS = frozenset("-=?+ 0123456789")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A secret's name can be written in braces, and typed; any other first character would make it a shell expression.
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@/-")
_NAME_BEGINNINGS = _NAME_CHARACTERS - set("0123456789.@/-")
NAME_LIMIT_CHARACTERS = 128
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"
# References of other clients; without an error they would reach the server unresolved.
_NOT_HERE = {
    "input": "it asks a person in VS Code, which a daemon cannot",
    "command": "it runs a command in VS Code, which Hearth does not",
    "config": "it is a setting of VS Code, which Hearth does not read",
}
_KNOWN = {"env", "file", "keyring", "cred", *_NOT_HERE}
# Other clients' names for the workspace folder.
WORKSPACE_VARIABLES = ("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR", "PWD")
_ELSEWHERE = "use ${NAME} with a variable, ${file:PATH} or ${keyring:NAME}"

# Variables with which a program finds its path, user, language and temporary files. Everything else in the
# daemon's environment, tokens above all, goes only to servers whose entries name it.
_ALLOWED = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR"})
_ALLOWED_PREFIXES = ("LC_", "XDG_")
# Behind a proxy, or with a company's own certificate authority, nothing can be reached or downloaded without these.
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
        *("APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "COMMONPROGRAMFILES"),
        *("HOMEDRIVE", "HOMEPATH", "USERNAME", "USERPROFILE", "TEMP", "TMP"),
        *("SYSTEMDRIVE", "SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "OS"),
        *("NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"),
    }
)


class _Unresolved(Exception):
    """Error for a reference that cannot be resolved; the message is a sentence."""


class Resolution(NamedTuple):
    """Entry with every reference replaced, for one use only, and the mask that hides its secrets."""

    spec: ServerSpec
    mask: Mask


def resolve(spec: ServerSpec, environ: Mapping[str, str], folder: str | None = None) -> Resolution:
    """Return the entry with every reference replaced. Blocks while a keyring is asked, if any: see `may_block`.

    `folder` belongs to the one client, or the one workspace, that the process is for; a relative `cwd` starts there.
    Without a folder the process is shared, and a relative `cwd` starts at the user's home.
    Raises ConfigError with one sentence for each reference that cannot be resolved, naming the server and the key.
    """
    sources = _Sources(_with_folder(environ, folder))
    resolved = _resolved(spec, sources, folder)
    return Resolution(resolved, Mask(_secrets(resolved, sources)))


def glance(spec: ServerSpec, environ: Mapping[str, str], folder: str | None = None) -> ServerSpec:
    """Resolve an entry for display: the keyring is not asked, and its references stay as written.

    Raises ConfigError as `resolve` does.
    """
    return _resolved(spec, _Glance(_with_folder(environ, folder)), folder)


def may_block(spec: ServerSpec) -> bool:
    """Tell whether resolving may have to wait for a person to unlock the keyring."""
    return any("${keyring:" in text for text in _texts(spec))


def secret_names(spec: ServerSpec) -> set[str]:
    """Return the names of the stored secrets that the entry refers to."""
    found = (_KIND.fullmatch(match[1] or "") for text in _texts(spec) for match in _REFERENCE.finditer(text))
    return {kind[2] for kind in found if kind and kind[1] == "keyring"}


def _texts(spec: ServerSpec) -> Iterator[str]:
    texts = (spec.command, *spec.args, *spec.env.values(), spec.cwd, spec.url, *spec.headers.values())
    return (text for text in (*texts, *_oauth_texts(spec.oauth).values()) if text)


def _with_folder(environ: Mapping[str, str], folder: str | None) -> Mapping[str, str]:
    return {**environ, **dict.fromkeys(WORKSPACE_VARIABLES, folder)} if folder else environ


def _resolved(spec: ServerSpec, sources: "_Sources", folder: str | None) -> ServerSpec:
    problems: list[str] = []

    def filled(value: str, key: str) -> str:
        try:
            return sources.fill(value)
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
        oauth=_filled_oauth(spec.oauth, filled),
    )
    problems.extend(f"server {spec.name!r}: {sentence}" for sentence in _unusable(resolved))
    if problems:
        raise ConfigError(problems)
    return resolved


def _secrets(resolved: ServerSpec, sources: "_Sources") -> Iterator[str]:
    """Yield the entry's values that must not be shown: values stored elsewhere, and values that look like secrets."""
    from hearth import secret_patterns

    yield from sources.kept
    for name, value in (*sources.variables, *resolved.env.items()):
        yield from secret_patterns.of_variable(name, value)
    for name, value in resolved.headers.items():
        yield from secret_patterns.of_header(name, value)
    if resolved.oauth.client_secret:
        yield resolved.oauth.client_secret
    yield from secret_patterns.of_arguments(resolved.args)
    yield from secret_patterns.of_url(resolved.url or "")


def _unusable(spec: ServerSpec) -> Iterator[str]:
    """Yield a sentence for each value that was valid as written and is not after its references are resolved."""
    for key in ("command", "cwd", "url"):
        if getattr(spec, key) == "":
            yield f"{key} is empty once its references are resolved"
    if spec.url and not spec.url.startswith("${") and (phrase := addresses.fault(spec.url)):
        yield f"url {phrase} once its references are resolved"
    for name, value in spec.headers.items():
        if "\n" in value or "\r" in value:
            yield f"headers.{name} has a line end in it once its references are resolved"


def unresolved(specs: Iterable[ServerSpec], environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each reference that this environment cannot resolve, whatever the client's folder."""
    problems: list[str] = []
    for spec in specs:
        try:
            glance(spec, environ, None if spec.isolation == "shared" else home_dir())
        except ConfigError as exc:
            problems.extend(exc.problems)
    return problems


def traces(spec: ServerSpec, environ: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """Return each reference of an entry as written with its current value; None if it cannot be resolved.

    Callers detect changes in anything that the entry depends on: hash the result, and keep nothing of it. The time of
    storing represents a stored secret: the keyring is not asked, and nothing blocks.
    """
    sources = _Traces(environ)
    written = [match.group() for text in _texts(spec) for match in _REFERENCE.finditer(text)]
    return [(reference, sources.trace(reference)) for reference in dict.fromkeys(written)]


def _filled_map(values: Mapping[str, str], key: str, filled: Callable[[str, str], str]) -> Mapping[str, str]:
    return MappingProxyType({name: filled(value, f"{key}.{name}") for name, value in values.items()})


def _oauth_texts(spec: OAuthSpec) -> dict[str, str]:
    return {name: value for name in spec.fields if isinstance(value := getattr(spec, name), str)}


def _filled_oauth(spec: OAuthSpec, filled: Callable[[str, str], str]) -> OAuthSpec:
    texts = _oauth_texts(spec)
    return spec.replace(**{name: filled(value, f"oauth.{name}") for name, value in texts.items()}) if texts else spec


def _from_home(path: str) -> str:
    # A shell would do this; none runs between the config and the program.
    return home_dir() + path[1:] if path == "~" or path.startswith(("~/", "~" + os.sep)) else path


def _url_from_home(url: str) -> str:
    prefix = addresses.UNIX + "~/"
    return addresses.UNIX + _from_home(url.removeprefix(addresses.UNIX)) if url.startswith(prefix) else url


def fill(text: str, environ: Mapping[str, str], whose: str = "the daemon's") -> str:
    """Return the text with its references replaced; messages name `whose` environment it is. Raises ConfigError."""
    try:
        return _Sources(environ, whose).fill(text)
    except _Unresolved as exc:
        raise ConfigError([str(exc)]) from exc


class _Sources:
    """Sources of the values of references. Each secret is looked up once and remembered for the mask."""

    def __init__(self, environ: Mapping[str, str], whose: str = "the daemon's") -> None:
        self._environ = environ
        self._whose = whose
        # Values stored as secrets, and variables that may be secrets by their names.
        self.kept: list[str] = []
        self.variables: list[tuple[str, str]] = []
        self._found: dict[str, str] = {}

    def fill(self, text: str) -> str:
        """Return the text with its references replaced. Raises _Unresolved."""
        return _REFERENCE.sub(self._value, text) if "${" in text else text

    def _value(self, match: re.Match[str]) -> str:
        written, inner = match.group(), match.group(1)
        if inner is None:
            return "${"
        found = _KIND.fullmatch(inner)
        if found is None or found[2][:1] in _SHELL_OPERATORS or (not found[2] and found[1] not in _KNOWN):
            return self._variable(inner, otherwise=written)
        kind, name = found.groups()
        if not name:
            raise _Unresolved(f"{written} names nothing")
        if kind == "env":
            return self._variable(name)
        if kind in _NOT_HERE or kind not in _KNOWN:
            raise _Unresolved(f"{written} cannot be resolved: {_NOT_HERE.get(kind, _ELSEWHERE)}")
        if written not in self._found:
            self._found[written] = self._kept(kind, name)
            self.kept.append(self._found[written])
        return self._found[written]

    def _kept(self, kind: str, name: str) -> str:
        if kind == "file":
            return _file(os.path.join(home_dir(), _from_home(name)))
        return self._credential(name) if kind == "cred" else self._secret(name)

    def _variable(self, written: str, otherwise: str | None = None) -> str:
        name, colon, default = written.partition(":-")
        if not _VARIABLE.fullmatch(name):
            if otherwise is not None:
                return otherwise
            raise _Unresolved(f"{name!r} is not the name of a variable")
        found = self._environ.get(name)
        if colon:
            found = found or default  # as in a shell, an empty value is replaced too
        if found is None and name in WORKSPACE_VARIABLES:
            raise _Unresolved(f"{name} is a client's folder, and a shared server has none; set isolation to workspace")
        if found is None:
            raise _Unresolved(
                f"the variable {name} is not set in {self._whose} environment;"
                f" set it there, or write ${{{name}:-…}} to give it a default"
            )
        if name not in WORKSPACE_VARIABLES:
            self.variables.append((name, found))
        return found

    def _credential(self, name: str) -> str:
        folder = self._environ.get(CREDENTIALS_VARIABLE)
        advice = f"give its unit LoadCredential={name}:PATH (systemctl --user edit mcp.service)"
        if not folder:
            raise _Unresolved(
                f"systemd has given the daemon no credentials ({CREDENTIALS_VARIABLE} is not set); {advice}"
            )
        if name != os.path.basename(name) or name.startswith("."):
            raise _Unresolved(f"{name!r} is not the name of a credential")
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            raise _Unresolved(f"systemd has given the daemon no credential {name!r}; {advice}")
        return _file(path)

    def _secret(self, name: str) -> str:
        from hearth.secrets.vault import Vault

        if fault := fault_of_secret_name(name):
            raise _Unresolved(fault)
        try:
            found = self._stored(Vault("secrets"), name)
        except VaultError as exc:
            raise _Unresolved(f"the secret {name!r} cannot be had: {exc}") from exc
        if found is None:
            raise _Unresolved(f"no secret {name!r} is stored; store it with: hearth secret set {name}")
        return found

    def _stored(self, vault: "Vault", name: str) -> str | None:
        return vault.get(name)


class _Glance(_Sources):
    """Sources that only check whether a secret is stored: the keyring is never unlocked."""

    def _stored(self, vault: "Vault", name: str) -> str | None:
        return f"${{keyring:{name}}}" if name in vault.entries() else None

    def _credential(self, name: str) -> str:
        # Only a process of the daemon's own unit has the credentials.
        return super()._credential(name) if CREDENTIALS_VARIABLE in self._environ else f"${{cred:{name}}}"


class _Traces(_Sources):
    """Sources whose values change whenever the real ones do."""

    def trace(self, reference: str) -> str | None:
        """Return the current value of a reference, or a stand-in for it; None if it cannot be resolved."""
        try:
            return self.fill(reference)
        except _Unresolved:
            return None

    def _stored(self, vault: "Vault", name: str) -> str | None:
        entry = vault.entries().get(name)
        return f"{entry.backend} {entry.changed_at!r}" if entry else None


def fault_of_secret_name(name: str) -> str | None:
    """Return a sentence that says why a text is not the name of a secret; None if it is one."""
    if name[:1] in _NAME_BEGINNINGS and _NAME_CHARACTERS.issuperset(name) and len(name) <= NAME_LIMIT_CHARACTERS:
        return None
    return f"{name!r} is not the name of a secret: use letters, digits, '_', '.', '@', '/' and '-', a letter first"


def _file(path: str) -> str:
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
    """Return the environment of the server's process: an allow-list of the daemon's, and the entry's own variables."""
    environment = {name: value for name, value in environ.items() if _is_passed_on(name, value)}
    environment.setdefault("PATH", os.defpath)
    environment.setdefault("HOME", home_dir())
    environment.update(spec.env)
    return environment


def _is_passed_on(name: str, value: str) -> bool:
    if value.startswith("()"):
        return False  # a function that bash exported; an unpatched shell would run it
    if system.is_windows() and name.upper() in _ALLOWED_ON_WINDOWS:
        return True
    return name in _ALLOWED or name in _ALLOWED_FOR_THE_NETWORK or name.startswith(_ALLOWED_PREFIXES)
