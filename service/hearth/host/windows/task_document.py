"""The logon task as the Task Scheduler reads it: which interpreter, and the XML filled in."""

import os

from hearth.host.install.xml_templates import fill


def windowless(python: str) -> str:
    """The interpreter that opens no console window, beside the given one; that one itself where it is missing."""
    head, tail = os.path.split(python)
    stem, extension = os.path.splitext(tail)
    if not stem.lower().startswith("python") or stem.lower().startswith("pythonw"):
        return python
    found = os.path.join(head, f"{stem[:6]}w{stem[6:]}{extension}")
    return found if os.path.exists(found) else python


def render(template: str, python: str, home: str, sid: str) -> str:
    """The XML for this interpreter and this user, in ASCII. Raises HearthError for what XML cannot hold."""
    values = {"PYTHON": python, "HOME": home, "SID": sid}
    return fill(template, values, "the Task Scheduler").encode("ascii", "xmlcharrefreplace").decode("ascii")
