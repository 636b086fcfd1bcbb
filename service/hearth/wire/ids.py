"""Equality of JSON-RPC ids, however they are written.

Ids are carried as raw JSON. A peer may answer request `1` with id `1.0`, or request `"\\u0061"` with id `"a"`;
tables are therefore keyed by `id_key`. The comparison works on text, never on floats, which would treat
different long numbers as equal.
"""

import re

from hearth.wire import scan

_NUMBER = rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?"
_QUOTE = b'"'[0]
# Numbers of up to this length become ints, as nearly all ids do. Longer ones stay text: int() is quadratic and
# refuses very long numbers.
_INT_BYTES = 18


def id_key(raw: bytes) -> object:
    """Return a hashable that is equal for equal ids and differs for 1 and "1". `raw` is one JSON value."""
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
