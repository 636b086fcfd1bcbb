"""Write the Homebrew formula of a release: the template with what is only known on the day of the release.

    pip install --dry-run --ignore-installed --no-binary :all: --report report.json dist/mcp_hearth-VERSION.tar.gz
    python packaging/homebrew/render.py --sdist dist/mcp_hearth-VERSION.tar.gz --url URL --homepage URL \\
        --report report.json > mcp-hearth.rb

The report is pip's answer to what is needed, and has to be made on a Mac by the Python that the formula depends on:
other systems need other packages. URL is where the sdist can be fetched from. No address stands in the template.
"""

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mcp-hearth.rb.in")
PROJECT = "mcp-hearth"


class Unusable(Exception):
    """What was given cannot make a formula; the sentence says why, and what to do."""


class Resource(NamedTuple):
    """One archive that Homebrew fetches, checks and builds."""

    name: str
    url: str
    sha256: str


def resources(report: Mapping[str, Any]) -> list[Resource]:
    """What is needed beside Hearth itself, by name. Raises Unusable for a report that does not fit a formula."""
    platform = report["environment"]["sys_platform"]
    if platform != "darwin":
        raise Unusable(f"the report was made on {platform}, where other packages are needed: make it on a Mac")
    found = [_resource(item) for item in report["install"] if _name(item) != PROJECT]
    return sorted(found, key=lambda resource: resource.name)


def _resource(item: Mapping[str, Any]) -> Resource:
    origin = item["download_info"]
    if not origin["url"].endswith((".tar.gz", ".zip")):
        raise Unusable(f"{_name(item)} would be a wheel, and Homebrew builds from source: give pip `--no-binary :all:`")
    if not origin["url"].startswith("https://"):
        raise Unusable(f"{_name(item)} comes from {origin['url']}, which nobody else can fetch it from")
    sha256 = origin.get("archive_info", {}).get("hashes", {}).get("sha256")
    if not sha256:
        raise Unusable(f"the report has no SHA-256 for {_name(item)}")
    return Resource(_name(item), origin["url"], sha256)


def _name(item: Mapping[str, Any]) -> str:
    # As Homebrew wants it: the normalised form of the packaging guide.
    return re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()


def formula_python(report: Mapping[str, Any]) -> str:
    """The formula of the Python that answered."""
    return f"python@{report['environment']['python_version']}"


def quoted(text: str) -> str:
    """Text that stands in Ruby's double quotes for itself."""
    return re.sub(r'(["\\#])', r"\\\1", text)


def stanza(resource: Resource) -> str:
    """A resource as formulae write it."""
    return (
        f'  resource "{quoted(resource.name)}" do\n'
        f'    url "{quoted(resource.url)}"\n'
        f'    sha256 "{quoted(resource.sha256)}"\n'
        "  end"
    )


def render(template: str, *, url: str, sha256: str, homepage: str, report: Mapping[str, Any]) -> str:
    """The formula. Raises Unusable."""
    values = {
        "HOMEPAGE": quoted(homepage),
        "URL": quoted(url),
        "SHA256": sha256,
        "PYTHON": formula_python(report),
        "RESOURCES": "\n\n".join(stanza(resource) for resource in resources(report)),
    }
    return re.sub("@([A-Z0-9]+)@", lambda found: values[found[1]], template)


def main() -> None:
    """Print the formula."""
    parser = argparse.ArgumentParser(description="Write the Homebrew formula of a release.")
    parser.add_argument("--sdist", required=True, help="the built sdist, for its checksum")
    parser.add_argument("--url", required=True, help="where the sdist can be fetched from")
    parser.add_argument("--homepage", required=True, help="where the project is at home")
    parser.add_argument("--report", required=True, help="pip's report, made on a Mac")
    given = parser.parse_args()
    with open(given.sdist, "rb") as archive:
        sha256 = hashlib.file_digest(archive, "sha256").hexdigest()
    with open(given.report, encoding="utf-8") as file:
        report = json.load(file)
    with open(TEMPLATE, encoding="utf-8") as file:
        template = file.read()
    try:
        print(render(template, url=given.url, sha256=sha256, homepage=given.homepage, report=report), end="")
    except Unusable as exc:
        sys.exit(f"render.py: {exc}")


if __name__ == "__main__":
    main()
