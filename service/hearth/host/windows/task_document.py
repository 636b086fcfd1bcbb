"""Logon task as XML for the Task Scheduler: the interpreter, and the template filled in."""

import os

from hearth.host.install.xml_templates import fill


def windowless(python: str) -> str:
    """Return the interpreter beside the given one that opens no console window; the given one if it is missing."""
    head, tail = os.path.split(python)
    stem, extension = os.path.splitext(tail)
    if not stem.lower().startswith("python") or stem.lower().startswith("pythonw"):
        return python
    found = os.path.join(head, f"{stem[:6]}w{stem[6:]}{extension}")
    return found if os.path.exists(found) else python


def render(template: str, python: str, home: str, sid: str) -> str:
    """Return the XML for this interpreter and this user, in ASCII. Raises HearthError for text that XML cannot hold."""
    values = {"PYTHON": python, "HOME": home, "SID": sid}
    return fill(template, values, "the Task Scheduler").encode("ascii", "xmlcharrefreplace").decode("ascii")
