"""Hooks of the build: the long description with absolute links, and the man page hearth(1) in the wheel.

hatchling loads this file where it builds (`[tool.hatch.…hooks.custom]` in pyproject.toml). An index shows the long
description apart from the repository, where relative links lead nowhere.
"""

import os
import re
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# Of Markdown links and images those that are neither addresses nor places in the same page.
_RELATIVE_LINK = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)\s]+\))")
# pip, pipx and man(1) know this place below the installation's prefix.
_MAN_PAGE = "share/man/man1/hearth.1"


def with_absolute_links(text: str, base: str) -> str:
    """Return Markdown whose relative links lead below an address."""
    return _RELATIVE_LINK.sub(lambda match: f"{match[1]}{base.rstrip('/')}/{match[2]}", text)


def man_page(root: str) -> str:
    """Return the man page, made from the command line in this source tree."""
    sys.path[:0] = [os.path.join(root, "service"), os.path.join(root, "packaging")]
    try:
        import man

        return str(man.page(""))
    finally:
        del sys.path[:2]


class LongDescription(MetadataHookInterface):
    """The README as the long description."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the README into the metadata, with absolute links."""
        with open(os.path.join(self.root, "README.md"), encoding="utf-8") as file:
            text = with_absolute_links(file.read(), metadata["urls"]["Source"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class ManPage(BuildHookInterface):
    """The man page as a file of the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the page beside the build and have it packed; an editable installation goes without."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        path = os.path.join(self._folder.name, "hearth.1")
        with open(path, "w", encoding="utf-8") as file:
            file.write(man_page(self.root))
        build_data["shared_data"][path] = _MAN_PAGE
