"""Finds the listeners of a client's events, when the client is made and at each heartbeat.

So a client without listeners loads nothing for them, and a later change of a logger's level is noticed within a
heartbeat. Holds no client.
"""

from __future__ import annotations

import os
import sys
from _weakref import ref

from mangonel._observe.logger_names import logger_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mangonel import _core
    from mangonel._observe.publisher import Publisher
    from mangonel._observe.tracing import Tracer
    from mangonel.bson.objectid import ObjectId
    from mangonel.client_options import ClientOptions

# The components of the log; each has its own logger.
COMPONENTS = ("command", "connection", "serverSelection", "topology")

_DEBUG = 10
_TRACING = "OTEL_PYTHON_INSTRUMENTATION_MONGODB_ENABLED"
_LONGEST_QUERY = "OTEL_PYTHON_INSTRUMENTATION_MONGODB_QUERY_TEXT_MAX_LENGTH"
_TRUE = frozenset(["1", "true", "yes"])
_FALSE = frozenset(["0", "false", "no"])


def logged_components() -> tuple[str, ...]:
    """Return the components whose loggers accept debug messages, without importing anything."""
    logging = sys.modules.get("logging")
    # Another thread may be in the middle of its import.
    if logging is None or not hasattr(logging, "getLogger"):
        return ()
    return tuple(name for name in COMPONENTS if logging.getLogger(logger_name(name)).isEnabledFor(_DEBUG))


# The tracing settings that an instrumentation gives to all clients.
_of_every_client: dict[str, Any] = {}
# Called with the core of each client that is made.
_meter: Callable[[_core.Core], object] | None = None


def trace_every_client(settings: dict[str, Any]) -> None:
    """Use tracing settings for all clients made from now on; a client's own `tracing=` overrides them. Empty: none."""
    global _of_every_client
    _of_every_client = settings


def measure_every_client(meter: Callable[[_core.Core], object] | None) -> None:
    """Count in each client made from now on, and call `meter` with its core. None: do neither."""
    global _meter
    _meter = meter


def make_tracer(options: ClientOptions) -> Tracer | None:
    """Return the tracer if the client's option or the environment switches tracing on.

    Raises:
        ConfigurationError: the option switches tracing on, and OpenTelemetry is not installed.
    """
    asked = {**_of_every_client, **options.tracing}
    is_enabled = asked.get("enabled")
    if is_enabled is None and (text := os.environ.get(_TRACING)):
        is_enabled = text.lower() in _TRUE
        if not is_enabled and text.lower() not in _FALSE:
            _warn(f"expected true or false in {_TRACING}, got {text!r}; no spans are made")
    if not is_enabled:
        return None
    try:
        from mangonel._observe.tracing import Tracer
    except ImportError as error:
        from mangonel.errors import ConfigurationError

        raise ConfigurationError("tracing needs opentelemetry-api; install mangonel[otel]") from error
    longest = asked.get("query_text_max_length")
    if longest is None:
        text = os.environ.get(_LONGEST_QUERY, "")
        longest = int(text) if text.isdecimal() else 0
        if text and not text.isdecimal():
            _warn(f"expected a number of bytes in {_LONGEST_QUERY}, got {text!r}; spans show no query text")
    shows_values = asked.get("query_text_values")
    return Tracer(longest, asked.get("tracer_provider"), shows_values=shows_values is not False)


def _warn(text: str) -> None:
    import warnings

    warnings.warn(text, stacklevel=3)


class Listeners:
    """Finds the listeners of one client."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._components = logged_components()
        self.tracer = make_tracer(options)
        self.publisher: Publisher | None = None
        self._topology_id: ObjectId | None = None
        if self._components or "mangonel.monitoring" in sys.modules:
            self.publisher = self._made()
        self._core: Callable[[], _core.Core | None] = lambda: None

    def _made(self) -> Publisher | None:
        from mangonel._observe.publisher import publisher_for

        return publisher_for(self._options, self._components)

    @property
    def topology_id(self) -> ObjectId:
        """The topology's id in events; stays the same even if nothing listens yet."""
        if self.publisher is not None:
            return self.publisher.topology_id
        if self._topology_id is None:
            from mangonel.bson.objectid import ObjectId

            self._topology_id = ObjectId()
        return self._topology_id

    @property
    def interests(self) -> int:
        """The kinds of events that any listener needs, as bits."""
        return self.publisher.interests if self.publisher else 0

    def follow(self, core: _core.Core) -> None:
        """Check again at each heartbeat, and when the level of one of the driver's loggers changes."""
        # The core keeps this object.
        self._core = ref(core)
        if self._options.metrics:
            core.count()
        if _meter is not None:
            _meter(core)
        if hasattr(sys.modules.get("logging"), "Logger"):
            from mangonel._observe.log_levels import watch

            watch(self, COMPONENTS)

    def add(self, listener: Any) -> None:
        """Add a listener; it receives events from the next operation on."""
        if self.publisher is None:
            from mangonel._observe.publisher import Publisher

            pool_options = self._options.pool_options.non_default_options
            self.publisher = Publisher([], pool_options, self._components)
        self._tell([*self.publisher.listeners, listener])

    def remove(self, listener: Any) -> None:
        """Remove a listener."""
        if self.publisher is not None:
            self._tell([heard for heard in self.publisher.listeners if heard is not listener])

    def _tell(self, listeners: list[Any]) -> None:
        publisher, core = self.publisher, self._core()
        if publisher is None or core is None:
            return
        publisher.listeners = listeners
        publisher.log(self._components)
        core.set_publisher(publisher, publisher.interests)

    def __call__(self) -> None:
        components, core = logged_components(), self._core()
        if components == self._components or core is None:
            return
        self._components = components
        if self.publisher is None:
            self.publisher = self._made()
        else:
            self.publisher.log(components)
        if self.publisher is not None:
            core.set_publisher(self.publisher, self.publisher.interests)
