"""Collections of Queryable Encryption: their state collections, and the source of their encrypted fields.

Encrypts nothing. Spec: client-side-encryption ("Create Collection Helper", "Drop Collection Helper").
"""

from __future__ import annotations

from mangonel._shared.client.admin_commands import MISSING_IS_FINE, PLAIN
from mangonel._shared.collection.write_support import server_limits_flow
from mangonel._shared.replies import ReplyTo, cursor_of
from mangonel.common import validate_is_mapping
from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mangonel._shared.client.admin_commands import AdministeredSource
    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.sessions.session import _ClientSession

# The index that the server uses to find equal values.
TAGS = "__safeContent__"

# Documents of state are only looked up by `_id`.
STATE_OPTIONS: Mapping[str, Any] = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}

_MIN_WIRE_VERSION = 21


def known_fields(source: AdministeredSource, name: str, given: Any) -> Mapping[str, Any] | None:
    """Return the encrypted fields of a collection: the given ones, otherwise those in the client's map.

    Raises:
        TypeError: `given` is not a mapping.
    """
    if given:
        validate_is_mapping("encrypted_fields", given)
        return given
    options = source._client._options.auto_encryption_opts
    return None if options is None else options._fields_of(f"{source._database_name}.{name}")


def state_names(fields: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Return the names of a collection's state collections."""
    return (
        fields.get("escCollection", f"enxcol_.{name}.esc"),
        fields.get("ecocCollection", f"enxcol_.{name}.ecoc"),
    )


async def check_server_flow(client: _MongoClient[Any]) -> None:
    """Refuse a server that does not support Queryable Encryption.

    Raises:
        ConfigurationError: the server is older than MongoDB 7.0. Nothing was sent.
    """
    found = (await server_limits_flow(client, "create")).max_wire_version
    if found < _MIN_WIRE_VERSION:
        raise ConfigurationError(
            "Driver support of Queryable Encryption is incompatible with server. Upgrade server to use Queryable "
            f"Encryption. Got maxWireVersion {found} but need maxWireVersion >= {_MIN_WIRE_VERSION} (MongoDB >=7.0)"
        )


async def drop_flow(
    source: AdministeredSource, name: str, given: Any, session: _ClientSession | None, comment: Any
) -> dict[str, Any]:
    """Drop a collection after its state collections; return the last command's reply."""
    reply: dict[str, Any] = {}
    for each in await _dropped_names_flow(source, name, given, session, comment):
        reply = await source._administer_flow(
            {"drop": each},
            session=session,
            comment=comment,
            allowable_errors=MISSING_IS_FINE,
            codec=PLAIN,
        )
    return reply


async def stored_fields_flow(
    source: AdministeredSource, name: str, session: _ClientSession | None = None, comment: Any = None
) -> Mapping[str, Any] | None:
    """Return the encrypted fields that the server has stored for a collection, or None."""
    fields: Mapping[str, Any] | None = None
    command = {"listCollections": 1, "cursor": {}, "filter": {"name": name}}
    batch = await source._port.arun(source._listing(command, session=session, comment=comment))
    for description in cursor_of(batch):
        with ReplyTo("listCollections"):
            fields = description.get("options", {}).get("encryptedFields")
    return fields


async def _dropped_names_flow(
    source: AdministeredSource, name: str, given: Any, session: _ClientSession | None, comment: Any
) -> tuple[str, ...]:
    """Return the names to drop with a collection, its own last."""
    fields = known_fields(source, name, given)
    if fields is None and source._client._options.auto_encryption_opts is not None:
        fields = await stored_fields_flow(source, name, session, comment)
    return (*state_names(fields, name), name) if fields else (name,)
