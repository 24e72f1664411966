"""Commands that change a deployment's structure: built, sent once, their replies checked.

Spec: retryable-writes (none of these is retried), read-write-concern.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._core import (
    KIND_READ,
    KIND_WRITE,
    READ_BATCH,
    READ_UNCHECKED,
)
from mangonel._shared.base import CommandSource
from mangonel._shared.settings import check_reply, concern_in, session_of
from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS
from mangonel.errors import write_concern_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.sessions.session import _ClientSession

PLAIN = _core.Codec(DEFAULT_CODEC_OPTIONS)
"""For replies that the driver itself reads, even if the user decodes documents into other classes."""

NAMESPACE_NOT_FOUND = 26
MISSING_IS_FINE: Container[str | int] = ("ns not found", NAMESPACE_NOT_FOUND)
"""The server's errors for removing something that does not exist."""


class AdministeredSource(CommandSource):
    """Runs administrative writes with its owner's settings."""

    _client: _MongoClient[Any]

    async def _administer_flow(
        self,
        command: dict[str, Any],
        *,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        allowable_errors: Container[str | int] = (),
        database: str | None = None,
        codec: _core.Codec | None = None,
        takes_write_concern: bool = True,
    ) -> dict[str, Any]:
        """Run `command` on the primary and return its reply; adds write concern and comment to `command`."""
        explicit = session_of(self._port, session)
        if comment is not None:
            command["comment"] = comment
        is_acknowledged = True
        if takes_write_concern and command.get("writeConcern") is None:
            concern = concern_in(explicit, self._write_concern)
            if not concern.is_server_default:
                command["writeConcern"] = concern.document
            is_acknowledged = concern.acknowledged
        operation = self._operation(
            command,
            kind=KIND_WRITE,
            reading=READ_UNCHECKED,
            session=explicit,
            is_acknowledged=is_acknowledged,
            codec=codec,
            database=database,
        )
        reply: dict[str, Any] | None = await self._port.arun(operation)
        if reply is None:
            # The write concern requests no confirmation.
            return {"ok": 1}
        # Checked first: the reply to an unconfirmed dropDatabase has both errors.
        error = write_concern_error(reply)
        if error is not None:
            raise error
        check_reply(reply, explicit, allowable_errors)
        return reply

    def _listing(
        self,
        command: dict[str, Any],
        reading: int = READ_BATCH,
        *,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        codec: _core.Codec | None = None,
    ) -> _core.Operation:
        """Build a retryable read on the primary that returns a cursor and accepts no read concern."""
        explicit = session_of(self._port, session)
        if comment is not None:
            command["comment"] = comment
        return self._operation(
            command,
            kind=KIND_READ,
            reading=reading,
            session=explicit,
            codec=PLAIN if codec is None else codec,
        )
