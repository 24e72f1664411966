"""The results of write methods. They hold the server's reply and compute counts, nothing else.

Spec: crud (write results).
"""

from __future__ import annotations

from mangonel.errors import InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = [
    "BulkWriteResult",
    "ClientBulkWriteResult",
    "DeleteResult",
    "InsertManyResult",
    "InsertOneResult",
    "UpdateResult",
]


class _WriteResult:
    __slots__ = ("_acknowledged",)

    def __init__(self, acknowledged: bool) -> None:
        self._acknowledged = acknowledged

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._acknowledged})"

    def _raise_if_unacknowledged(self, property_name: str) -> None:
        if not self._acknowledged:
            raise InvalidOperation(
                f"A value for {property_name} is not available when the write is unacknowledged;"
                " look at acknowledged first"
            )

    @property
    def acknowledged(self) -> bool:
        """Whether the server confirmed the write. If not (`w=0`), the counts raise InvalidOperation."""
        return self._acknowledged


class InsertOneResult(_WriteResult):
    """The result of insert_one."""

    __slots__ = ("_inserted_id",)

    def __init__(self, inserted_id: Any, acknowledged: bool) -> None:
        self._inserted_id = inserted_id
        self._acknowledged = acknowledged

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inserted_id!r}, acknowledged={self._acknowledged})"

    @property
    def inserted_id(self) -> Any:
        """The document's `_id`, given or generated."""
        return self._inserted_id


class InsertManyResult(_WriteResult):
    """The result of insert_many."""

    __slots__ = ("_inserted_ids",)

    def __init__(self, inserted_ids: list[Any], acknowledged: bool) -> None:
        self._inserted_ids = inserted_ids
        self._acknowledged = acknowledged

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inserted_ids!r}, acknowledged={self._acknowledged})"

    @property
    def inserted_ids(self) -> list[Any]:
        """The documents' `_id`s in the order given; unordered inserts may have run in another order."""
        return self._inserted_ids


class UpdateResult(_WriteResult):
    """The result of update_one, update_many and replace_one."""

    __slots__ = ("_in_client_bulk", "_raw_result")

    def __init__(
        self, raw_result: Mapping[str, Any] | None, acknowledged: bool, in_client_bulk: bool = False
    ) -> None:
        self._raw_result = raw_result
        self._acknowledged = acknowledged
        # A client's bulk_write reports an upserted id one level deeper, and does not count an upsert as a match.
        self._in_client_bulk = in_client_bulk

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._raw_result!r}, acknowledged={self._acknowledged})"

    @property
    def raw_result(self) -> Mapping[str, Any] | None:
        """The server's reply, or None when the write is unacknowledged."""
        return self._raw_result

    @property
    def matched_count(self) -> int:
        """How many documents matched the filter; 0 if the update became an insert."""
        reply = self._reply("matched_count")
        if not self._in_client_bulk and reply.get("upserted") is not None:
            return 0
        return reply.get("n", 0)

    @property
    def modified_count(self) -> int:
        """How many documents were changed. A match that already had the new values does not count."""
        return self._reply("modified_count").get("nModified", 0)

    @property
    def upserted_id(self) -> Any:
        """The `_id` of the inserted document, or None when nothing was inserted."""
        upserted = self._reply("upserted_id").get("upserted")
        return upserted["_id"] if self._in_client_bulk and upserted else upserted

    @property
    def did_upsert(self) -> bool:
        """Whether the update became an insert. Distinguishes an upserted `_id` of None from no upsert."""
        return "upserted" in self._reply("did_upsert")

    def _reply(self, property_name: str) -> Mapping[str, Any]:
        self._raise_if_unacknowledged(property_name)
        return self._raw_result or {}


class DeleteResult(_WriteResult):
    """The result of delete_one and delete_many."""

    __slots__ = ("_raw_result",)

    def __init__(self, raw_result: Mapping[str, Any], acknowledged: bool) -> None:
        self._raw_result = raw_result
        self._acknowledged = acknowledged

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._raw_result!r}, acknowledged={self._acknowledged})"

    @property
    def raw_result(self) -> Mapping[str, Any]:
        """The server's reply."""
        return self._raw_result

    @property
    def deleted_count(self) -> int:
        """How many documents were deleted."""
        self._raise_if_unacknowledged("deleted_count")
        return self._raw_result.get("n", 0)


class _BulkResult(_WriteResult):
    __slots__ = ("_bulk_api_result",)

    def __init__(self, bulk_api_result: dict[str, Any], acknowledged: bool) -> None:
        self._bulk_api_result = bulk_api_result
        self._acknowledged = acknowledged

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._bulk_api_result!r}, acknowledged={self._acknowledged})"

    def _count(self, property_name: str, key: str) -> int:
        self._raise_if_unacknowledged(property_name)
        return self._bulk_api_result.get(key)  # type: ignore[return-value]

    @property
    def bulk_api_result(self) -> dict[str, Any]:
        """The merged replies of all commands of the bulk."""
        return self._bulk_api_result

    @property
    def inserted_count(self) -> int:
        """How many documents were inserted, upserts not counted."""
        return self._count("inserted_count", "nInserted")

    @property
    def matched_count(self) -> int:
        """How many documents matched the filters of updates."""
        return self._count("matched_count", "nMatched")

    @property
    def modified_count(self) -> int:
        """How many documents were changed."""
        return self._count("modified_count", "nModified")

    @property
    def deleted_count(self) -> int:
        """How many documents were deleted."""
        # A collection's bulk_write calls it nRemoved, a client's nDeleted.
        return self._count("deleted_count", "nRemoved" if "nRemoved" in self._bulk_api_result else "nDeleted")

    @property
    def upserted_count(self) -> int:
        """How many updates became inserts."""
        return self._count("upserted_count", "nUpserted")


class BulkWriteResult(_BulkResult):
    """The result of a collection's bulk_write."""

    __slots__ = ()

    @property
    def upserted_ids(self) -> dict[int, Any] | None:
        """The `_id` of each upserted document by the index of its model; None without a result."""
        self._raise_if_unacknowledged("upserted_ids")
        if not self._bulk_api_result:
            return None
        return {upsert["index"]: upsert["_id"] for upsert in self._bulk_api_result["upserted"]}


class ClientBulkWriteResult(_BulkResult):
    """The result of a client's bulk_write. Results of single models need `verbose_results=True`."""

    __slots__ = ("_has_verbose_results",)

    def __init__(
        self, bulk_api_result: dict[str, Any], acknowledged: bool, has_verbose_results: bool
    ) -> None:
        super().__init__(bulk_api_result, acknowledged)
        self._has_verbose_results = has_verbose_results

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._bulk_api_result!r}, acknowledged={self._acknowledged}, "
            f"verbose={self._has_verbose_results})"
        )

    @property
    def has_verbose_results(self) -> bool:
        """Whether the results of single models were requested."""
        return self._has_verbose_results

    @property
    def insert_results(self) -> Mapping[int, InsertOneResult]:
        """The results of successful inserts by the index of their model."""
        return self._results("insert_results", "insertResults")

    @property
    def update_results(self) -> Mapping[int, UpdateResult]:
        """The results of successful updates by the index of their model."""
        return self._results("update_results", "updateResults")

    @property
    def delete_results(self) -> Mapping[int, DeleteResult]:
        """The results of successful deletes by the index of their model."""
        return self._results("delete_results", "deleteResults")

    def _results(self, property_name: str, key: str) -> Any:
        self._raise_if_unacknowledged(property_name)
        if not self._has_verbose_results:
            raise InvalidOperation(
                f"{property_name} is not available; pass verbose_results=True to bulk_write"
            )
        return self._bulk_api_result.get(key)
