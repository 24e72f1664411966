"""Options of a session and its transactions. Sends nothing. Spec: sessions, transactions."""

from __future__ import annotations

from mangonel._faces.deadline import limit_seconds
from mangonel.errors import ConfigurationError
from mangonel.read_concern import ReadConcern
from mangonel.read_preferences import _ServerMode
from mangonel.write_concern import WriteConcern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class TransactionOptions:
    """Options of a transaction. None: the session's default, or without one the client's.

    Args:
        read_concern: which data the transaction sees.
        write_concern: how many members confirm the commit; it must be acknowledged.
        read_preference: where it reads; the server allows only the primary.
        max_commit_time_ms: milliseconds that the server may spend on one commit.

    Raises:
        TypeError: an argument has the wrong type.
        ConfigurationError: the write concern is unacknowledged.

    Example:
        >>> TransactionOptions(ReadConcern("snapshot"), WriteConcern("majority"))
    """

    def __init__(
        self,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: _ServerMode | None = None,
        max_commit_time_ms: int | None = None,
    ) -> None:
        if read_concern is not None and not isinstance(read_concern, ReadConcern):
            raise _wrong("read_concern", read_concern, ReadConcern)
        if read_preference is not None and not isinstance(read_preference, _ServerMode):
            raise TypeError(
                f"{read_preference!r} is not valid for read_preference: take one of ReadPreference"
            )
        if max_commit_time_ms is not None and not isinstance(max_commit_time_ms, int):
            raise TypeError(f"max_commit_time_ms must be an integer or None, not {type(max_commit_time_ms)}")
        if write_concern is not None:
            if not isinstance(write_concern, WriteConcern):
                raise _wrong("write_concern", write_concern, WriteConcern)
            if not write_concern._acknowledged:
                raise ConfigurationError(
                    f"transactions do not support unacknowledged write concern: {write_concern!r}"
                )
        self._read_concern = read_concern
        self._write_concern = write_concern
        self._read_preference = read_preference
        self._max_commit_time_ms = max_commit_time_ms

    @property
    def read_concern(self) -> ReadConcern | None:
        """Which data the transaction sees, or None."""
        return self._read_concern

    @property
    def write_concern(self) -> WriteConcern | None:
        """How many members confirm the commit, or None."""
        return self._write_concern

    @property
    def read_preference(self) -> _ServerMode | None:
        """The read preference, or None."""
        return self._read_preference

    @property
    def max_commit_time_ms(self) -> int | None:
        """Milliseconds that the server may spend on one commit, or None."""
        return self._max_commit_time_ms


class SessionOptions:
    """The options passed to `start_session`.

    Args:
        causal_consistency: reads see the session's earlier writes and reads. None: True unless `snapshot`.
        default_transaction_options: defaults for the session's transactions.
        snapshot: all reads see the data of one moment; not together with `causal_consistency`.
        default_timeout_ms: milliseconds for each commit, each abort and each `with_transaction`; 0: no limit. None: the
            client's `timeoutMS`.

    Raises:
        TypeError: `default_transaction_options` has another type.
        ConfigurationError: the arguments contradict each other.
    """

    def __init__(
        self,
        causal_consistency: bool | None = None,
        default_transaction_options: TransactionOptions | None = None,
        snapshot: bool | None = False,
        *,
        default_timeout_ms: float | None = None,
    ) -> None:
        if snapshot and causal_consistency:
            raise ConfigurationError("snapshot reads do not support causal_consistency=True")
        if causal_consistency is None or snapshot:
            causal_consistency = not snapshot
        default = default_transaction_options
        if default is not None and not isinstance(default, TransactionOptions):
            raise _wrong("default_transaction_options", default, TransactionOptions)
        self._causal_consistency = bool(causal_consistency)
        self._default_transaction_options = default_transaction_options
        self._snapshot = snapshot
        if default_timeout_ms is not None:
            limit_seconds("default_timeout_ms", default_timeout_ms)
        self._default_timeout_ms = default_timeout_ms

    @property
    def default_timeout_ms(self) -> float | None:
        """The milliseconds for each commit, each abort and each `with_transaction`, or None."""
        return self._default_timeout_ms

    @property
    def causal_consistency(self) -> bool:
        """Whether reads see the session's earlier writes and reads."""
        return self._causal_consistency

    @property
    def default_transaction_options(self) -> TransactionOptions | None:
        """Defaults for the session's transactions, or None."""
        return self._default_transaction_options

    @property
    def snapshot(self) -> bool | None:
        """Whether all reads see the data of one moment."""
        return self._snapshot


def _wrong(name: str, value: Any, kind: type[Any]) -> TypeError:
    return TypeError(f"{name} must be an instance of {kind.__name__}, not: {value!r}")
