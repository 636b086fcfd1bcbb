"""Characters that control a terminal or reorder its text, in untrusted texts. Pure, and without dependencies.

Control characters of ASCII and of ISO 6429 (C1) move the cursor, change colours and titles, and may make a terminal
type commands. Bidirectional and invisible format characters show a text in another order than it has, or hide a part of
it. Line feeds and tabs are kept.
"""

import re

# C0 without tab and line feed; DEL and C1; bidirectional marks, embeddings, overrides and isolates; separators of lines
# and paragraphs; invisible characters, with which two names look the same.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
# Sequences that this command line writes: colours and weights, and the erasing of a line after a carriage return.
_OWN = re.compile("(\x1b\\[(?:0|1|2|3[1-36])m|\r\x1b\\[K|\r\n)")
REPLACEMENT = "\ufffd"


def escaped(text: str) -> str:
    """Return a text with every unsafe character as its JSON and Python escape."""
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def replaced(text: str) -> str:
    """Return a text with every unsafe character replaced by a visible one."""
    return UNSAFE.sub(REPLACEMENT, text)


def guarded(text: str) -> str:
    """Return a text for a terminal, with the control sequences that Hearth itself writes, and no others."""
    if UNSAFE.search(text) is None:
        return text
    return "".join(part if number % 2 else replaced(part) for number, part in enumerate(_OWN.split(text)))
