"""When two JSON-RPC ids are the same, however they are written.

Ids are carried as raw JSON. A peer may answer to `1.0` what was asked as `1`, or to `"a"` what was asked as
`"\\u0061"`; tables are therefore keyed by what `id_key` gives. Pure text work: no float, which would take
different long numbers for equal.
"""

import re

from hearth.wire import scan

_NUMBER = rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?"
_QUOTE = b'"'[0]
# Numbers that fit are ints, as nearly all ids are. Longer ones stay text: int() is quadratic and refuses long
# ones.
_INT_BYTES = 18


def id_key(raw: bytes) -> object:
    """A hashable that is equal for equal ids and differs for 1 and "1". `raw` is one JSON value."""
    if len(raw) <= _INT_BYTES and raw.isdigit():
        return int(raw)
    if raw[0] == _QUOTE:
        return scan.text(raw)
    found = re.fullmatch(_NUMBER, raw)
    return _number_key(*found.groups(b"")) if found else raw


def _number_key(sign: bytes, whole: bytes, fraction: bytes, exponent: bytes) -> object:
    digits = (whole + fraction).lstrip(b"0")
    significant = digits.rstrip(b"0")
    if not significant:
        return 0
    if len(exponent) > _INT_BYTES:
        return sign, digits, exponent
    power = int(exponent or b"0") - len(fraction) + len(digits) - len(significant)
    if power >= 0 and len(significant) + power <= _INT_BYTES:
        return int(sign + significant) * 10**power
    return sign, significant, power
