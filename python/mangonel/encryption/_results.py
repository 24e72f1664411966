"""What operations on data keys return."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mangonel.results import BulkWriteResult


class RewrapManyDataKeyResult:
    """What `rewrap_many_data_key` did."""

    def __init__(self, bulk_write_result: BulkWriteResult | None = None) -> None:
        self._bulk_write_result = bulk_write_result

    @property
    def bulk_write_result(self) -> BulkWriteResult | None:
        """The result of writing the keys; None when none matched, so that nothing was written."""
        return self._bulk_write_result

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._bulk_write_result!r})"
