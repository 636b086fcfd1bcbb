"""Trusted projects: the `.hearth/policy.toml` of a project, as it was when a person trusted it.

The rules:

1. A project's policy counts once a person has trusted it. In force is a copy by digest below the state folder; a later
   change of the project's file, or its removal, changes nothing until it is trusted again.
2. The policy holds for sessions that began in the project's folder, below it, or in a linked worktree of it; of several
   the nearest one.
3. A project's policy only narrows. A copy that is damaged asks a person about everything in that project.

The command line writes under a lock; the daemon only reads, and notices a change by `stat`. Knows no sessions.
"""

import functools
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

from hearth.config.loader import read_file
from hearth.errors import ConfigError, FileAccessError, Refused
from hearth.host import private_files
from hearth.host.folders import make_private, refusal
from hearth.host.locks import Lock
from hearth.policy import captures, loader
from hearth.policy.model import Policy

log = logging.getLogger(__name__)

_VERSION = 1
# Far more than anyone works on; the index is read whole.
PROJECTS_LIMIT = 1000
INDEX_LIMIT_BYTES = 2 * 1024 * 1024
# Folders of clients that are in use at a time.
_FOLDERS_CACHED = 256


class TrustedProject(NamedTuple):
    """Project whose policy is trusted: its folder, the digest of the trusted bytes, and when that was."""

    folder: str
    digest: str
    at: float

    @property
    def path(self) -> str:
        """Path of the project's own file, which may have changed since."""
        return project_file(self.folder)

    def state(self) -> str:
        """Return "trusted", "changed" or "removed": the project's own file, compared with the trusted copy."""
        try:
            data = read_file(self.path, loader.FILE_LIMIT_BYTES)
        except ConfigError:
            return "changed"
        if data is None:
            return "removed"
        return "trusted" if sha256(data).hexdigest() == self.digest else "changed"


def project_file(folder: str) -> str:
    """Return the path of a project's policy; the file need not exist."""
    return os.path.join(folder, loader.PROJECT_FOLDER, loader.FILE_NAME)


class ProjectPolicies:
    """Policies of trusted projects by folder, and the user's policy narrowed by them. Immutable but for its cache."""

    def __init__(self, projects: Mapping[str, Policy]) -> None:
        self._projects = projects
        # The user's policy and the narrowed one, by the digest of the project's: one object for each pair, because
        # decisions are cached in it and calls are compared by it.
        self._narrowed: dict[str, tuple[Policy, Policy]] = {}

    def over(self, policy: Policy, folder: str | None) -> Policy:
        """Return the policy that is in force for sessions that began in a folder."""
        if folder is None or not self._projects:
            return policy
        project = next((self._projects[each] for each in _upwards(folder) if each in self._projects), None)
        if project is None:
            return policy
        former, narrowed = self._narrowed.get(project.digest, (None, policy))
        if former is not policy:
            narrowed = loader.narrow(policy, project)
            self._narrowed[project.digest] = (policy, narrowed)
        return narrowed


@functools.lru_cache(maxsize=_FOLDERS_CACHED)
def workspace_of(cwd: str | None) -> str | None:
    """Return the folder of the repository that a folder is in, or the folder itself.

    A linked worktree, wherever it lies, is in its repository.
    """
    if cwd is None:
        return None
    above = _above(cwd)
    top = next((path for path in above if os.path.exists(os.path.join(path, ".git"))), above[0])
    return _main_of(top) or top


@functools.lru_cache(maxsize=_FOLDERS_CACHED)
def _upwards(folder: str) -> tuple[str, ...]:
    """Return a folder and every folder above it; for a linked worktree, behind its top, those of its repository."""
    found = list(_above(folder))
    for index, path in enumerate(found):
        if os.path.isfile(os.path.join(path, ".git")) and (main := _main_of(path)):
            return (*found[: index + 1], *_above(main), *found[index + 1 :])
    return tuple(found)


def _above(folder: str) -> tuple[str, ...]:
    """Return a folder, after links are resolved, and every folder above it."""
    path = os.path.realpath(folder)
    found = [path]
    while (parent := os.path.dirname(path)) != path:
        found.append(path := parent)
    return tuple(found)


def _main_of(top: str) -> str | None:
    """Return the main working tree of a linked worktree; None for any other folder."""
    found = captures.main_worktree(top)
    return os.path.realpath(found) if found else None


class TrustStore:
    """Trusted projects of one profile (`Places.trusted`): an index, and the copies by digest."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._index = os.path.join(folder, "projects.json")
        self._lock = Lock(self._index + ".lock")
        self._stamp: private_files.Stamp = None

    # --- for the daemon

    def changed(self) -> bool:
        """Tell whether the index has changed since `policies` read it; one `stat`."""
        return self._stamp != private_files.stamp(self._index)

    def policies(self) -> ProjectPolicies:
        """Return the policies of all trusted projects. Raises FileAccessError."""
        self._stamp = private_files.stamp(self._index)
        return ProjectPolicies({each.folder: self._policy(each) for each in self.list()})

    def _policy(self, project: TrustedProject) -> Policy:
        try:
            data = self.copy(project)
            return loader.parse(project.path, data)
        except (FileAccessError, ConfigError) as exc:
            log.error("trusted policy of a project cannot be used folder=%s reason=%s", project.folder, exc)
            return loader.parse(project.path, _EVERYTHING_ASKED)

    # --- for the command line

    def list(self) -> "list[TrustedProject]":
        """Return the trusted projects, by folder. Raises FileAccessError."""
        try:
            data = private_files.read(self._index, INDEX_LIMIT_BYTES)
            tree: dict[str, Any] = json.loads(data) if data else {"version": _VERSION, "projects": {}}
            if tree["version"] != _VERSION:
                raise ValueError("it is of another version")
            found = [TrustedProject(folder, str(row["digest"]), float(row["at"])) for folder, row in
                     tree["projects"].items()]  # fmt: skip
        except NotADirectoryError:
            # There is no state folder, so that nothing was ever trusted.
            return []
        except OSError as exc:
            raise refusal("read the trusted projects", self._index, exc) from exc
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            what = f"{self._index} has no trusted projects of this version"
            raise FileAccessError(f"{what}; move it away and trust them again") from exc
        return sorted(found)

    def find(self, folder: str) -> TrustedProject | None:
        """Return the trusted project that a folder is in, the nearest one. Raises FileAccessError."""
        known = {each.folder: each for each in self.list()}
        return next((known[each] for each in _upwards(folder) if each in known), None)

    def copy(self, project: TrustedProject) -> bytes:
        """Return the bytes that were trusted. Raises FileAccessError if they are not there as they were."""
        path = self._copy_path(project.digest)
        try:
            data = private_files.read(path, loader.FILE_LIMIT_BYTES)
        except (OSError, ValueError) as exc:
            raise FileAccessError(f"cannot read {path}: {exc}; `hearth policy trust {project.folder}`") from exc
        if sha256(data).hexdigest() != project.digest:
            raise FileAccessError(f"{path} is damaged; trust the project again: `hearth policy trust {project.folder}`")
        return data

    def trust(self, folder: str, data: bytes) -> TrustedProject:
        """Trust these bytes as the policy of a project. Raises FileAccessError, and Refused for too many projects."""
        project = TrustedProject(os.path.realpath(folder), sha256(data).hexdigest(), time.time())
        with self._edited() as known:
            known[project.folder] = project
            if len(known) > PROJECTS_LIMIT:
                raise Refused(f"{PROJECTS_LIMIT} projects are trusted already; `hearth policy untrust FOLDER` ends one")
            self._write(self._copy_path(project.digest), data)
        return project

    def untrust(self, folder: str) -> TrustedProject:
        """Forget a project; its policy counts no longer. Raises FileAccessError, and Refused if it is not trusted."""
        with self._edited() as known:
            found = known.pop(os.path.realpath(folder), None)
            if found is None:
                raise Refused(
                    f"the policy of {folder} is not trusted; `hearth policy trust --list` shows those that are"
                )
        return found

    @contextmanager
    def _edited(self) -> Iterator[dict[str, TrustedProject]]:
        make_private(self._folder)
        self._lock.acquire()
        try:
            known = {each.folder: each for each in self.list()}
            former = {each.digest for each in known.values()}
            yield known
            rows = {each.folder: {"digest": each.digest, "at": each.at} for each in known.values()}
            document = {"version": _VERSION, "projects": rows}
            self._write(self._index, json.dumps(document, indent=1).encode() + b"\n")
            for digest in former - {each.digest for each in known.values()}:
                private_files.remove(self._copy_path(digest))
        finally:
            self._lock.release()

    def _copy_path(self, digest: str) -> str:
        return os.path.join(self._folder, f"{digest}.toml")

    def _write(self, path: str, data: bytes) -> None:
        try:
            private_files.write(path, data, durable=True)
        except OSError as exc:
            raise refusal("write", path, exc) from exc


_EVERYTHING_ASKED = b"""\
[[rules]]
tool = "**"
decide = "ask_human"
reason = "the trusted copy of this project's policy cannot be used; `hearth policy trust` renews it"
"""
