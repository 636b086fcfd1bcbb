"""The table of cells in the documents: rendered from what a run found, and read back."""

from support.conformance.features import FEATURES
from support.conformance.revisions import REVISIONS

# (client's revision, server's revision, feature)
Cell = tuple[str, str, str]

SIGNS = {"works": "●", "omitted": "○", "lowered": "◐", "refused": "✗", "absent": "–"}
WORDS = {sign: word for word, sign in SIGNS.items()}

HEADING = """\
# Any client, any server: the matrix

Written by the tests, which try every cell over both wires: frames through a real bridge, and raw lines on the socket.
`tests/support/conformance/` has clients, servers and what each feature means; `make matrix` writes this page.

| sign | what is found |
| --- | --- |
| ● | it works as the client's revision has it |
| ○ | the client's revision has no such thing: that part is left out, the rest is delivered |
| ◐ | the client's revision has no such thing: it gets text that says the same |
| ✗ | the client cannot be asked that: the call fails at once, with a sentence that names what is missing |
| – | the server's revision has no such thing: it is not listed, and calling it is an error |

`meta` is about `_meta` of vendors, which arrives untouched, `array` about structured content that is no object, `link`
about resource links, `url` about elicitation by URL. `undeclared` is a client that declares no capabilities and calls
tools that ask.
"""


def rendered(found: dict[Cell, str]) -> str:
    """The page."""
    head = ["client", "server", *FEATURES]
    lines = [HEADING, _row(head), _row(["---"] * len(head))]
    for client in REVISIONS:
        for upstream in REVISIONS:
            signs = [SIGNS[found[client, upstream, feature]] for feature in FEATURES]
            lines.append(_row([client, upstream, *signs]))
    return "\n".join(lines) + "\n"


def _row(words: list[str]) -> str:
    return f"| {' | '.join(words)} |"


def read(page: str) -> dict[Cell, str]:
    """What a page says of each cell."""
    rows = [[word.strip() for word in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    head = next(row for row in rows if row[0] == "client")
    return {
        (row[0], row[1], feature): WORDS[sign]
        for row in rows
        if row[0] in REVISIONS
        for feature, sign in zip(head[2:], row[2:], strict=True)
    }
