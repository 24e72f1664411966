"""Writing documents of a collection. Spec: crud (write), retryable-writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from mangonel import _core
from mangonel._core import REPLIES_NONE, REPLIES_ONE
from mangonel._shared.base import CommandSource
from mangonel._shared.returns import Returns
from mangonel._shared.settings import check_session
from mangonel.common import MAX_BSON_SIZE, validate_is_document_type
from mangonel.results import InsertOneResult
from mangonel.typings import _DocumentType

if TYPE_CHECKING:
    from mangonel._shared.client import _MongoClient


class CollectionWrites(CommandSource, Generic[_DocumentType]):
    """The writing half of a collection."""

    _client: _MongoClient[_DocumentType]
    _name: str

    def insert_one(
        self,
        document: _DocumentType,
        bypass_document_validation: bool | None = None,
        session: Any = None,
        comment: Any = None,
    ) -> Returns[InsertOneResult]:
        """Insert one document. Without an `_id` it gets an ObjectId, here and in the caller's mapping.

        Args:
            document: a dict or another MutableMapping, or a RawBSONDocument, whose `_id` is then not known here.
            bypass_document_validation: store it even when the collection's rules do not allow it.
            session: must be None in this version.
            comment: shown in the server's logs and profile.

        Raises:
            DuplicateKeyError: a document with that value under a unique index exists. Nothing was stored.
            WriteConcernError: stored, but not confirmed as the write concern asks.
            InvalidDocument, DocumentTooLarge: it cannot be stored. Nothing was sent.
            AutoReconnect: the line broke, twice with `retryWrites`. Whether it was stored is not known.

        Example:
            >>> client.shop.users.insert_one({"name": "Ada"}).inserted_id
            ObjectId('...')
        """
        validate_is_document_type("document", document)
        command: dict[str, Any] = {"insert": self._name, "ordered": True}
        if bypass_document_validation is not None:
            command["bypassDocumentValidation"] = bypass_document_validation
        if comment is not None:
            command["comment"] = comment
        if session is not None:
            check_session(session)
        concern = self._write_concern
        if not concern.is_server_default:
            command["writeConcern"] = concern.document
        operation = _core.insert_one(
            self._database_name,
            command,
            document,
            self._codec,
            REPLIES_ONE if concern.acknowledged else REPLIES_NONE,
            MAX_BSON_SIZE,
            InsertOneResult,
        )
        return self._port.run(operation)
