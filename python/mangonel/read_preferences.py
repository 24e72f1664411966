"""Read preferences: which members of a deployment may serve a read. The core selects the server.

Specs: server-selection, max-staleness.
"""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel._light import Mapping
from mangonel.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar, TypeAlias

    _Hedge: TypeAlias = Mapping[str, Any]
    _TagSets: TypeAlias = Sequence[Mapping[str, Any]]

__all__ = [
    "Nearest",
    "Primary",
    "PrimaryPreferred",
    "ReadPreference",
    "Secondary",
    "SecondaryPreferred",
    "make_read_preference",
    "read_pref_mode_from_name",
]

# A mode is the position of its name here; PyMongo uses the same numbers.
_MONGOS_MODES = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")

# No limit on how far a secondary may lag.
_NO_MAX_STALENESS = -1


# The checks come before the classes, because ReadPreference makes instances at import.
def _validate_tag_sets(tag_sets: _TagSets | None) -> _TagSets | None:
    if tag_sets is None:
        return None
    if not isinstance(tag_sets, (list, tuple)):
        raise TypeError(f"Tag sets {tag_sets!r} invalid, must be a sequence of tag documents")
    if not tag_sets:
        raise ValueError(
            "Tag sets [] invalid: expected None or at least one tag document; {} accepts any member"
        )
    for tags in tag_sets:
        if not isinstance(tags, Mapping):
            raise TypeError(f"tag set {tags!r} invalid: expected a dict or another Mapping")
    return list(tag_sets)


def _validate_max_staleness(max_staleness: Any) -> int:
    if max_staleness == _NO_MAX_STALENESS:
        return _NO_MAX_STALENESS
    if not isinstance(max_staleness, int):
        raise TypeError(f"maxStalenessSeconds must be a positive integer, not {max_staleness}")
    if max_staleness <= 0:
        raise ValueError(f"maxStalenessSeconds must be a positive integer, not {max_staleness}")
    return max_staleness


def _validate_hedge(hedge: _Hedge | None) -> _Hedge | None:
    if hedge is None:
        return None
    if not isinstance(hedge, dict):
        raise TypeError(f"hedge must be a dictionary, not {hedge!r}")
    _warn_of_hedge()
    return hedge


def _warn_of_hedge() -> None:
    import warnings

    # There are two frames of this module between this line and the caller.
    warnings.warn(
        "The read preference 'hedge' option is deprecated, as servers from 8.0 on ignore it",
        DeprecationWarning,
        stacklevel=3,
    )


class _ServerMode:
    """A read preference. Immutable; compares by value.

    Args:
        tag_sets: tag documents in order of preference; `{}` at the end accepts any member.
        max_staleness: seconds a secondary may lag behind the primary, at least 90; -1: no limit.
        hedge: deprecated, `{"enabled": True}` for hedged reads on mongos.

    Raises:
        TypeError, ValueError: an argument has the wrong type or range.
    """

    __slots__ = ("_hedge", "_max_staleness", "_tag_sets")

    _MODE: ClassVar[int]

    def __init__(
        self,
        tag_sets: _TagSets | None = None,
        max_staleness: int = _NO_MAX_STALENESS,
        hedge: _Hedge | None = None,
    ) -> None:
        self._tag_sets = _validate_tag_sets(tag_sets)
        self._max_staleness = _validate_max_staleness(max_staleness)
        self._hedge = _validate_hedge(hedge)

    @property
    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    @property
    def mongos_mode(self) -> str:
        """The mode as commands and URIs spell it."""
        return _MONGOS_MODES[self._MODE]

    @property
    def mode(self) -> int:
        """The mode as a number, 0 for primary to 4 for nearest."""
        return self._MODE

    @property
    def document(self) -> dict[str, Any]:
        """This preference as a new dict, in the form of `$readPreference`."""
        document: dict[str, Any] = {"mode": self.mongos_mode}
        if self._tag_sets not in (None, [{}]):
            document["tags"] = self._tag_sets
        if self._max_staleness != _NO_MAX_STALENESS:
            document["maxStalenessSeconds"] = self._max_staleness
        if self._hedge:
            document["hedge"] = self._hedge
        return document

    @property
    def tag_sets(self) -> _TagSets:
        """The tag documents in order of preference; `[{}]` accepts any member."""
        return list(self._tag_sets) if self._tag_sets else [{}]

    @property
    def max_staleness(self) -> int:
        """Seconds a secondary may lag behind the primary, or -1 for no limit."""
        return self._max_staleness

    @property
    def hedge(self) -> _Hedge | None:
        """Deprecated: the settings of hedged reads."""
        if self._hedge is not None:
            _warn_of_hedge()
        return self._hedge

    @property
    def min_wire_version(self) -> int:
        """The wire version that every server must support for this preference."""
        return 0 if self._max_staleness == _NO_MAX_STALENESS else 5

    def _key(self) -> tuple[Any, ...]:
        return self._MODE, self.tag_sets, self._max_staleness, self._hedge

    def __repr__(self) -> str:
        return (
            f"{self.name}(tag_sets={self._tag_sets!r}, max_staleness={self._max_staleness!r}, "
            f"hedge={self._hedge!r})"
        )

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, _ServerMode) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


class Primary(_ServerMode):
    """Read from the primary. The default, and the only mode that never reads stale data."""

    __slots__ = ()
    _MODE = 0

    def __init__(self) -> None:
        super().__init__()

    def __repr__(self) -> str:
        return "Primary()"


class PrimaryPreferred(_ServerMode):
    """Read from the primary, or from a secondary if there is no primary."""

    __slots__ = ()
    _MODE = 1


class Secondary(_ServerMode):
    """Read from a secondary; fail if there is none."""

    __slots__ = ()
    _MODE = 2


class SecondaryPreferred(_ServerMode):
    """Read from a secondary, or from the primary if there is no secondary."""

    __slots__ = ()
    _MODE = 3


class Nearest(_ServerMode):
    """Read from any member within the latency window."""

    __slots__ = ()
    _MODE = 4


_CLASSES = (Primary, PrimaryPreferred, Secondary, SecondaryPreferred, Nearest)


class ReadPreference:
    """The five modes. For tags or limits, make an instance: `Nearest(tag_sets=[{"dc": "ny"}])`."""

    PRIMARY = Primary()
    PRIMARY_PREFERRED = PrimaryPreferred()
    SECONDARY = Secondary()
    SECONDARY_PREFERRED = SecondaryPreferred()
    NEAREST = Nearest()


class MovingAverage:
    """A moving average that weights newer samples more; used for the ping times of servers.

    Example:
        >>> average = MovingAverage()
        >>> average.add_sample(10.0)
        >>> average.add_sample(20.0)
        >>> average.get()
        12.0
    """

    __slots__ = ("average",)

    # The weight of the newest sample (server-selection, "round trip time").
    _NEWEST = 0.2

    def __init__(self) -> None:
        self.average: float | None = None

    def add_sample(self, sample: float) -> None:
        """Add a sample of 0 or more.

        Raises:
            ValueError: the sample is negative.
        """
        if sample < 0:
            raise ValueError(f"expected a duration of 0 or more, got {sample}")
        average = self.average
        self.average = sample if average is None else (1 - self._NEWEST) * average + self._NEWEST * sample

    def get(self) -> float | None:
        """Return the average, or None without a sample."""
        return self.average

    def reset(self) -> None:
        """Forget all samples."""
        self.average = None


def make_read_preference(
    mode: int, tag_sets: _TagSets | None, max_staleness: int = _NO_MAX_STALENESS
) -> _ServerMode:
    """Return the preference for a mode's number.

    Args:
        mode: 0 primary, 1 primaryPreferred, 2 secondary, 3 secondaryPreferred, 4 nearest.
        tag_sets: sets of tags that a member must have, tried in order. None: any member.
        max_staleness: seconds that a secondary may lag; -1 for any.

    Raises:
        ConfigurationError: `mode` is primary, and there are tags or a staleness limit.

    Example:
        >>> make_read_preference(3, [{"dc": "ny"}])
        SecondaryPreferred(tag_sets=[{'dc': 'ny'}], max_staleness=-1, hedge=None)
    """
    expect("mode", mode, int, "an int")
    if not 0 <= mode < len(_CLASSES):
        raise ValueError(f'expected a number from 0 to {len(_CLASSES) - 1} for "mode", got {mode}')
    if mode != Primary._MODE:
        return _CLASSES[mode](tag_sets, max_staleness)  # type: ignore[call-arg]
    if tag_sets not in (None, [{}]):
        raise ConfigurationError("read preference primary cannot be combined with tags")
    if max_staleness != _NO_MAX_STALENESS:
        raise ConfigurationError("read preference primary cannot be combined with maxStalenessSeconds")
    return Primary()


def read_pref_mode_from_name(name: str) -> int:
    """Return the number of a mode for its name in URIs; raise ValueError for any other name.

    Args:
        name: such as `secondaryPreferred`.

    Example:
        >>> read_pref_mode_from_name("secondaryPreferred")
        3
    """
    return _MONGOS_MODES.index(name)
