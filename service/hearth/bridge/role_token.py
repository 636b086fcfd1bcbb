"""Token of a bridge or a hook, of a role or of an agent, read from the file of `--token-file`. Loaded only with it.

Other processes could read a token in the arguments or in the environment, and other people one in a client's config,
which is often shared; hence a file, for this user only. No error message shows its content.
"""

import os

from hearth.bridge import connector
from hearth.errors import FileAccessError

# A token has 55 characters; a longer file is something else.
FILE_LIMIT_BYTES = 4096
TOKEN_LIMIT_CHARACTERS = 200
_ISSUE = "`hearth role token ROLE` writes one, and the daemon one for each agent that it runs"
_REGULAR, _TYPE_BITS, _OTHERS = 0o100000, 0o170000, 0o077


def read(path: str) -> str:
    """Return the token in a file. Raises FileAccessError for a file that is missing, open to others or no token."""
    path = os.path.expanduser(path)
    try:
        # A named pipe without a writer would block the bridge forever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError as exc:
        raise FileAccessError(f"the token file {path} does not exist; {_ISSUE}") from exc
    except (OSError, ValueError) as exc:
        why = (exc.strerror if isinstance(exc, OSError) else "") or str(exc)
        raise FileAccessError(f"the token file {path} cannot be read: {why.lower()}") from exc
    try:
        _check(path, os.fstat(descriptor))
        data = os.read(descriptor, FILE_LIMIT_BYTES + 1)
    except OSError as exc:
        raise FileAccessError(f"the token file {path} cannot be read: {(exc.strerror or '').lower()}") from exc
    finally:
        os.close(descriptor)
    if len(data) > FILE_LIMIT_BYTES:
        message = f"the token file {path} has over {FILE_LIMIT_BYTES} bytes, too many for a token; {_ISSUE}"
        raise FileAccessError(message)
    return _token(path, data)


def _check(path: str, state: os.stat_result) -> None:
    if state.st_mode & _TYPE_BITS != _REGULAR:
        raise FileAccessError(f"the token file {path} is not a regular file; {_ISSUE}")
    if not connector.is_own_user(state.st_uid):
        raise FileAccessError(f"the token file {path} belongs to user {state.st_uid}, not to you; {_ISSUE}")
    mode = state.st_mode & 0o7777
    if connector.HAS_MODES and mode & _OTHERS:
        raise FileAccessError(
            f"the token file {path} is open to other users (mode {mode:04o});"
            f" type `chmod 600 {path}`, and issue another token if one of them may have read it"
        )


def _token(path: str, data: bytes) -> str:
    text = data.decode("ascii", "replace").strip()
    if not text or len(text) > TOKEN_LIMIT_CHARACTERS or not all("!" <= character <= "~" for character in text):
        raise FileAccessError(f"the token file {path} has no token in it; {_ISSUE}")
    return text
