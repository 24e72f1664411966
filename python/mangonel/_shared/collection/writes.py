"""Inserts documents; other writes are mixed in. Spec: crud (write), retryable-writes."""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_RETRYABLE_WRITE, REPLIES_NONE, REPLIES_ONE
from mangonel._light import Generic, Iterable, Iterator, Mapping
from mangonel._shared.collection.arrow import CollectionArrow
from mangonel._shared.collection.bulk import CollectionBulkWrite
from mangonel._shared.collection.find_and_modify import CollectionFindAndModify
from mangonel._shared.collection.updates import CollectionUpdates
from mangonel._shared.collection.write_support import (
    COMMAND_OVERHEAD,
    FEW_WRITES,
    TROUBLES,
    UNTOLD,
    are_dicts,
    operation_alone,
)
from mangonel._shared.face_result import FaceResult
from mangonel._shared.settings import BOUND, write_in
from mangonel.common import MAX_BSON_SIZE, MAX_WRITE_BATCH_SIZE, validate_is_document_type
from mangonel.errors import InvalidOperation
from mangonel.results import InsertManyResult, InsertOneResult
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.collection.bulk_run import BulkRunner, Run
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.raw_bson import RawBSONDocument


class CollectionWrites(
    CollectionUpdates[_DocumentType],
    CollectionFindAndModify[_DocumentType],
    CollectionBulkWrite[_DocumentType],
    CollectionArrow,
    Generic[_DocumentType],
):
    """The write methods of a collection."""

    _client: _MongoClient[_DocumentType]
    _name: str

    def insert_one(
        self,
        document: _DocumentType | RawBSONDocument,
        bypass_document_validation: bool | None = None,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[InsertOneResult]:
        """Insert one document. A missing `_id` is added as an ObjectId, also to the caller's mapping.

        Args:
            document: a dict or another MutableMapping, or a RawBSONDocument, whose `_id` the result does not have.
            bypass_document_validation: store the document even if it violates the collection's validator.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            DuplicateKeyError: a unique index already holds the value. Nothing was stored.
            WriteConcernError: stored, but the write concern was not satisfied.
            InvalidDocument, DocumentTooLarge: the document cannot be stored. Nothing was sent.
            AutoReconnect: the connection broke, twice with `retryWrites`. Whether the document was stored is not known.

        Example:
            >>> client.shop.users.insert_one({"name": "Ada"}).inserted_id
            ObjectId('...')
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        if type(document) is not dict:
            validate_is_document_type("document", document)
        port, database, name, codec, _, concern, _ = self._context
        command: dict[str, Any] = {"insert": name, "ordered": True}
        if bypass_document_validation is not None:
            command["bypassDocumentValidation"] = bypass_document_validation
        if comment is not None:
            command["comment"] = comment
        handle: _core.Session | None = None
        if session is not None or BOUND:
            handle, concern = write_in(port, session, concern)
        if concern._document:
            command["writeConcern"] = concern._document
        is_acknowledged = concern._acknowledged
        operation = _core.insert_one(
            database,
            command,
            document,
            codec,
            REPLIES_ONE if is_acknowledged else REPLIES_NONE,
            # The server reports documents that it does not store; without a reply the driver must check.
            MAX_BSON_SIZE + COMMAND_OVERHEAD if is_acknowledged else MAX_BSON_SIZE,
            InsertOneResult,
            handle,
        )
        return port.run(operation)

    def _insert_checked(self, document: Mapping[str, Any], session: _ClientSession | None) -> _core.Operation:
        """Return the operation that inserts one document with its `_id`; the caller starts it."""
        command: dict[str, Any] = {"insert": self._name, "ordered": True, "documents": [document]}
        return self._single_write(command, KIND_RETRYABLE_WRITE, None, session=session)

    def insert_many(
        self,
        documents: Iterable[_DocumentType | RawBSONDocument],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[InsertManyResult]:
        """Insert documents in as few commands as the server's limits allow. A missing `_id` is added as an ObjectId.

        Args:
            documents: any iterable. A list is checked completely before anything is sent; another iterable is read
                while its first documents are being sent.
            ordered: stop at the first document that fails. False: try all of them.
            bypass_document_validation, session, comment: as for `insert_one`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            BulkWriteError: some documents were not stored, or not confirmed; `details` has the counts, and the
                errors with the index of each document.
            TypeError: `documents` is not an iterable, or an empty list, or an element is not a document.
            InvalidDocument: a document cannot be encoded. Documents of earlier commands are stored.
            AutoReconnect: the connection broke, twice with `retryWrites`. How many documents were stored is not known.

        Example:
            >>> client.shop.users.insert_many([{"_id": 1}, {"_id": 2}]).inserted_ids
            [1, 2]
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        has_options = session is not None or bypass_document_validation is not None or comment is not None
        if type(documents) is list and not has_options:
            few = documents[:FEW_WRITES]
            if len(few) == len(documents) and self._sends_alone() and are_dicts(few):
                return self._port.flow(_insert_few_flow(self, few, ordered))
        runner_class = self._bulk_runner
        runs: Iterable[Run]
        if isinstance(documents, (list, tuple)) and documents:
            # A copy: the caller's list may change while its first documents are being sent.
            runs = [runner_class.insert_run([*documents])]
        elif not isinstance(documents, Iterable) or isinstance(documents, Mapping) or not documents:
            found = documents if isinstance(documents, (list, tuple)) else type(documents)
            raise TypeError(f"documents must be a non-empty list or another iterable, not {found}")
        else:
            runs = _insert_runs(runner_class, documents)
        runner = runner_class(
            self,
            ordered=ordered,
            bypass_document_validation=bypass_document_validation,
            comment=comment,
            session=session,
        )
        return self._port.flow(_insert_many_flow(runner, runs))


async def _insert_many_flow(runner: BulkRunner, runs: Iterable[Run]) -> InsertManyResult:
    result = await runner.run_flow(runs, name="insert")
    return InsertManyResult(runner.ids, result is not None)


async def _insert_few_flow(
    collection: CollectionWrites[Any], documents: list[Any], ordered: bool
) -> InsertManyResult:
    told, limits = UNTOLD, collection._client._core.limits()
    try:
        made = operation_alone(collection, limits, "insert", documents, ordered)
        if made is not None:
            # The collection's port, which may have a limit of its own, runs the whole flow.
            told = await collection._client._port.arun(made[0])
            if "n" in told and TROUBLES.isdisjoint(told):
                return InsertManyResult(made[1].ids, True)
    except BaseException as error:
        told = error
    runner_class = collection._bulk_runner
    runner = runner_class(collection, ordered=ordered)
    try:
        runs = [runner_class.insert_run(documents)]
        result = await runner.run_flow(runs, name="insert", limits=limits, told=told)
        return InsertManyResult(runner.ids, result is not None)
    finally:
        # The traceback of an exception holds this frame.
        told = UNTOLD


def _insert_runs(runner_class: type[BulkRunner], documents: Iterable[Any]) -> Iterator[Run]:
    from itertools import islice

    count, rest = 0, iter(documents)
    while chunk := list(islice(rest, MAX_WRITE_BATCH_SIZE)):
        yield runner_class.insert_run(chunk, count)
        count += len(chunk)
    if count == 0:
        raise InvalidOperation("No operations to execute")
