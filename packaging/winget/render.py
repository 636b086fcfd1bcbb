"""Write the winget manifest of a release: the templates with what is only known on the day of the release.

    python packaging/winget/render.py --archive dist/hearth-VERSION-win-x64.zip --url URL --homepage URL FOLDER

URL is where the archive can be fetched from. No address stands in the templates. The three files in FOLDER have the
names that winget's repository of manifests wants.
"""

import argparse
import hashlib
import os
import re
import sys
import zipfile
from collections.abc import Iterable

from hearth import __version__

HERE = os.path.dirname(os.path.abspath(__file__))
IDENTIFIER = "MCPHearth.Hearth"
# What stands behind the identifier in the name of each file.
KINDS = ("version", "installer", "locale.en-US")
# As the manifest calls it, with Windows's kind of slash.
PROGRAM = "hearth/hearth.exe"


class Unusable(Exception):
    """What was given cannot make a manifest; the sentence says why, and what to do."""


def file_name(kind: str) -> str:
    """The name of one of the files."""
    return f"{IDENTIFIER}.yaml" if kind == "version" else f"{IDENTIFIER}.{kind}.yaml"


def check(url: str, homepage: str, contents: Iterable[str]) -> None:
    """Raise Unusable for what nobody could fetch, or what winget would find no program in."""
    for address in (url, homepage):
        if not re.fullmatch(r"https://[^\s#]+", address):
            raise Unusable(f"{address!r} is no address that others can fetch from: give one that begins with https://")
    if PROGRAM not in contents:
        raise Unusable(f"the archive has no {PROGRAM}, which is what winget puts on the PATH")


def render(template: str, *, url: str, sha256: str, homepage: str, version: str = __version__) -> str:
    """One of the files."""
    values = {"IDENTIFIER": IDENTIFIER, "VERSION": version, "URL": url, "SHA256": sha256.upper(), "HOMEPAGE": homepage}
    return re.sub("@([A-Z0-9]+)@", lambda found: values[found[1]], template)


def template(kind: str) -> str:
    """The text of one template."""
    with open(os.path.join(HERE, f"{kind}.yaml.in"), encoding="utf-8") as file:
        return file.read()


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Write the winget manifest of a release.")
    parser.add_argument("--archive", required=True, help="the built archive, for its checksum")
    parser.add_argument("--url", required=True, help="where the archive can be fetched from")
    parser.add_argument("--homepage", required=True, help="where the project is at home")
    parser.add_argument("folder", help="where the files go")
    given = parser.parse_args()
    try:
        with zipfile.ZipFile(given.archive) as archive:
            check(given.url, given.homepage, archive.namelist())
    except (Unusable, OSError, zipfile.BadZipFile) as exc:
        sys.exit(f"render.py: {exc}")
    with open(given.archive, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    os.makedirs(given.folder, exist_ok=True)
    for kind in KINDS:
        with open(os.path.join(given.folder, file_name(kind)), "w", encoding="utf-8") as file:
            file.write(render(template(kind), url=given.url, sha256=sha256, homepage=given.homepage))


if __name__ == "__main__":
    main()
