"""Write the copyright file of the Debian package: Hearth's own, then a paragraph for each package that is bundled.

    TREE/bin/python packaging/deb/copyright.py debian/copyright PREFIX

Run by the interpreter of the private tree; PREFIX is where that tree will be. Everything is taken from what the bundled
packages say of themselves, and one that brings no licence text ends the build: then a person has to look. The form is
https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/.
"""

import re
import sys
import sysconfig
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

OWN = "mcp-hearth"
LICENCE_NAME = re.compile(r"(licen[cs]e|copying|notice|authors)[^/]*$", re.IGNORECASE)
COPYRIGHT_LINE = re.compile(r"^\W*copyright\s+(?:\(c\)|©|\d).*$", re.IGNORECASE | re.MULTILINE)
COMMON = "/usr/share/common-licenses"
APACHE = re.compile(r"Apache License\s+Version 2\.0, January 2004")
# The whole of it, not a word of it.
APACHE_END = "END OF TERMS AND CONDITIONS"
# What a licence's text says of how to apply it is no claim.
PLACEHOLDER = re.compile(r"\[yyyy\]|<year>|\{yyyy\}")


def licence_files(record: Path) -> list[Path]:
    """The texts that the package brings, in the order of their names."""
    return sorted(path for path in record.rglob("*") if path.is_file() and LICENCE_NAME.match(path.name))


def short_name(found: Distribution) -> str:
    """The licence in a word, as the package declares it."""
    said = found.metadata.get("License-Expression") or found.metadata.get("License") or ""
    if not said or "\n" in said or len(said) > 60:
        trove = [line for line in found.metadata.get_all("Classifier") or [] if line.startswith("License ::")]
        said = trove[0].rpartition(" :: ")[2] if trove else "unnamed"
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", said).strip("-")


def holders(texts: list[str]) -> list[str]:
    """The lines in which somebody claims the copyright."""
    lines = [line.strip(" #*\t") for text in texts for line in COPYRIGHT_LINE.findall(text)]
    return list(dict.fromkeys(line for line in lines if not PLACEHOLDER.search(line)))


def text_of(path: Path) -> str:
    """A licence's text; what lies on every Debian system is pointed to, as Debian's policy (12.5) wants it."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if APACHE.search(text) and APACHE_END in text:
        return f"On Debian systems, the full text of the Apache License, version 2.0, is in {COMMON}/Apache-2.0."
    return text


def indented(text: str) -> str:
    """A text as the continuation of a field: every line moved in, an empty one a dot."""
    return "\n".join(f" {line.rstrip()}" if line.strip() else " ." for line in text.strip().splitlines())


def top_levels(record: Path, prefix: str) -> list[str]:
    """Where the files of the package are: its record, and what that names, or else what is called like it."""
    named = record / "top_level.txt"
    names = named.read_text(encoding="utf-8").split() if named.exists() else [record.name.split("-")[0]]
    folder = f"{prefix.lstrip('/')}/lib/{record.parents[1].name}/site-packages"
    return [f"{folder}/{record.name}/*", *(f"{folder}/{name}*" for name in names)]


def paragraph(found: Distribution, record: Path, prefix: str) -> str:
    """The two paragraphs of one package. Raises SystemExit where it brings no licence."""
    name = found.metadata["Name"]
    files = licence_files(record)
    if not files:
        raise SystemExit(f"copyright.py: {name} {found.version} brings no licence text; look at it by hand")
    texts = list(dict.fromkeys(map(text_of, files)))
    claims = holders([path.read_text(encoding="utf-8", errors="replace") for path in files]) or [
        found.metadata.get("Author") or f"The authors of {name}"
    ]
    licence = f"{short_name(found)}-{name}"
    text = "\n\n".join(texts)
    return "\n".join(
        [
            "Files:",
            *(f" {pattern}" for pattern in top_levels(record, prefix)),
            "Copyright:",
            *(f" {claim}" for claim in claims),
            f"License: {licence}",
            f"Comment: {name} {found.version}",
            "",
            f"License: {licence}",
            indented(text),
            "",
        ]
    )


def main() -> None:
    """Print the file."""
    own, prefix = sys.argv[1:]
    site_packages = Path(sysconfig.get_path("purelib"))
    parts = [Path(own).read_text(encoding="utf-8")]
    for record in sorted(site_packages.glob("*.dist-info"), key=lambda path: path.name.lower()):
        found = PathDistribution(record)
        if found.metadata["Name"] != OWN:
            parts.append(paragraph(found, record, prefix))
    print("\n".join(parts), end="")


if __name__ == "__main__":
    main()
