"""Results of operations on data keys."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mangonel.results import BulkWriteResult


class RewrapManyDataKeyResult:
    """The result of `rewrap_many_data_key`."""

    def __init__(self, bulk_write_result: BulkWriteResult | None = None) -> None:
        self._bulk_write_result = bulk_write_result

    @property
    def bulk_write_result(self) -> BulkWriteResult | None:
        """The result of writing the keys; None if no key matched, so that nothing was written."""
        return self._bulk_write_result

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._bulk_write_result!r})"
