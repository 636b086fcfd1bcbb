"""What a server offers, written down and read again. Pure: bytes in, bytes out."""

from hearth.errors import MessageError
from hearth.mcp.catalog import KINDS, Item, Kind, ServerCatalog
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes


def write(offering: ServerCatalog) -> bytes:
    """One JSON object; definitions are in it as their server wrote them."""
    fields: Members = {
        "era": json.dumps(offering.era),
        "version": json.dumps(offering.version),
        "capabilities": json.join(offering.capabilities),
        "instructions": json.dumps(offering.instructions),
        "lists": json.join({kind.member: _list(offering, kind) for kind in KINDS}),
    }
    return json.join(fields)


def _list(offering: ServerCatalog, kind: Kind) -> bytes:
    return b"[%b]" % b",".join(json.join(item.definition) for item in offering.lists[kind].values())


def read(server: str, raw: RawBytes) -> ServerCatalog:
    """What was written, as an offering of the server of that name. Raises MessageError for anything else."""
    fields = json.split(raw)
    era, version = values.text(fields.get("era")), values.text(fields.get("version"))
    if era is None or version is None:
        raise MessageError("an offering without an era or a version")
    offering = ServerCatalog(era, version, json.split(fields["capabilities"]), values.text(fields.get("instructions")))
    lists = json.split(fields["lists"])
    for kind in KINDS:
        offering.take(kind, [_item(kind, server, each) for each in values.elements(lists.get(kind.member))])
    return offering


def _item(kind: Kind, server: str, raw: RawBytes) -> Item:
    try:
        return Item(kind, server, json.split(raw))
    except ValueError as exc:
        raise MessageError(str(exc)) from exc
