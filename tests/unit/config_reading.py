"""A config's text to what was found in it, without any file."""

from collections.abc import Mapping

from hearth.config.layers import Examination
from hearth.config.model import Config
from hearth.errors import ConfigError


def examined(
    text: str | bytes,
    name: str = "config.toml",
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Examination:
    """What is found in a file of that name; its problems are all in `problems`."""
    found = Examination(name)
    try:
        found.read_file(text.encode() if isinstance(text, str) else text)
    except ConfigError as exc:
        found.problems.extend(exc.problems)
    found.read_environment(environ or {})
    found.read_flags(flags or {})
    found.finish()
    return found


def config_of(text: str | bytes, name: str = "config.toml", **sources: Mapping[str, object]) -> Config:
    """The config of a file that has nothing wrong."""
    found = examined(text, name, **sources)  # type: ignore[arg-type]
    assert found.problems == []
    return found.config
