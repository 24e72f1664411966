"""A client's bulk_write: writes to several collections in one call. Spec: bulk-write."""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel._shared.base import CommandSource
from mangonel._shared.face_result import FaceResult
from mangonel._shared.settings import concern_in, session_handle, session_of
from mangonel.common import validate_is_document_type, validate_list
from mangonel.errors import InvalidOperation
from mangonel.write_concern import WriteConcern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.results import ClientBulkWriteResult


class ClientBulkWrite(CommandSource):
    """Writes to several collections in one call."""

    def bulk_write(
        self,
        models: Sequence[Any],
        session: _ClientSession | None = None,
        ordered: bool = True,
        verbose_results: bool = False,
        bypass_document_validation: bool | None = None,
        comment: Any | None = None,
        let: Mapping[str, Any] | None = None,
        write_concern: WriteConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[ClientBulkWriteResult]:
        """Run writes on any number of collections in as few commands as the server's limits allow.

        Needs MongoDB 8.0.

        Args:
            models: a list of InsertOne, UpdateOne, UpdateMany, ReplaceOne, DeleteOne and DeleteMany, each with its
                `namespace`.
            session: run in this session; it must come from the same client.
            ordered: stop at the first write that fails. False: try all of them.
            verbose_results: request the result of each write, not only counts.
            bypass_document_validation: store documents even if they violate their collection's validator.
            comment: shown in the server's logs and profile.
            let: variables for expressions, as `$$name`.
            write_concern: overrides the client's. Unacknowledged: needs `ordered=False`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            ClientBulkWriteException: some writes failed; `partial_result` counts the applied ones, `error` ended the
                bulk.
            InvalidOperation: the server is older than 8.0, a model has no namespace, or there is no model. Nothing was
                sent.
            ConfigurationError: an option that unacknowledged writes cannot have. Nothing was sent.
            TypeError, ValueError: an element is not a model, or has a wrong argument. Nothing was sent.
            InvalidDocument: a document cannot be encoded. The writes of earlier commands were run.

        Example:
            >>> client.bulk_write([InsertOne({"_id": 1}, "shop.orders"), DeleteOne({"_id": 7}, namespace="shop.carts")])
            ClientBulkWriteResult(...)
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        explicit = session_of(self._port, session)
        if explicit is not None and explicit.in_transaction:
            if write_concern:
                raise InvalidOperation("Cannot set write concern after starting a transaction")
            concern = concern_in(explicit, self._write_concern)
        else:
            concern = self._write_concern if write_concern is None else write_concern
            expect("write_concern", concern, WriteConcern, "a WriteConcern")
        if not concern.acknowledged and verbose_results:
            raise InvalidOperation("cannot request unacknowledged write concern and verbose results")
        if not concern.acknowledged and ordered:
            raise InvalidOperation("cannot request unacknowledged write concern and ordered writes")
        validate_list("models", models)
        if let is not None:
            validate_is_document_type("let", let)
        from mangonel._shared.client.bulk_run import ClientBulkRunner

        runner = ClientBulkRunner(self, concern, ordered, verbose_results, session_handle(explicit))
        for model in models:
            runner.add(model)
        if not models:
            raise InvalidOperation("No operations to execute")
        concern_in(explicit, concern)
        command: dict[str, Any] = {"bulkWrite": 1, "errorsOnly": not verbose_results, "ordered": ordered}
        if bypass_document_validation is not None:
            command["bypassDocumentValidation"] = bypass_document_validation
        if comment is not None:
            command["comment"] = comment
        if let:
            command["let"] = let
        if not concern.is_server_default:
            command["writeConcern"] = concern.document
        return self._port.flow(runner.run_flow(command))
