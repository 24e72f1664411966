"""The options of connection pools, for `client.options.pool_options`. The core owns the pools."""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel.common import MAX_CONNECTING, MAX_POOL_SIZE, MIN_POOL_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel.driver_info import DriverInfo
    from mangonel.server_api import ServerApi

__all__ = ["PoolOptions"]


class PoolOptions:
    """Read-only options of the pools of one client. Times are seconds; None means no limit.

    Args:
        max_pool_size, min_pool_size: connections to each server.
        max_idle_time_seconds: how long a connection may be idle.
        connect_timeout, socket_timeout: limits for opening a connection, and for each send and receive on it.
        wait_queue_timeout: how long an operation waits for a free connection.
        tls_allow_invalid_hostnames: accept a certificate for another host.
        appname, driver: names with which the client identifies itself to the server.
        max_connecting: how many connections to one server may be opening at the same time.
        server_api: the stable API that commands declare, if any.
        load_balanced: whether the client is behind a load balancer.
        is_sync: whether the client is a blocking one.
    """

    __slots__ = (
        "_drivers",
        "_is_async",
        "appname",
        "connect_timeout",
        "driver",
        "load_balanced",
        "max_connecting",
        "max_idle_time_seconds",
        "max_pool_size",
        "min_pool_size",
        "server_api",
        "socket_timeout",
        "tls_allow_invalid_hostnames",
        "wait_queue_timeout",
    )

    def __init__(
        self,
        max_pool_size: int | None = MAX_POOL_SIZE,
        min_pool_size: int = MIN_POOL_SIZE,
        max_idle_time_seconds: float | None = None,
        connect_timeout: float | None = None,
        socket_timeout: float | None = None,
        wait_queue_timeout: float | None = None,
        tls_allow_invalid_hostnames: bool = False,
        appname: str | None = None,
        driver: DriverInfo | None = None,
        max_connecting: int = MAX_CONNECTING,
        server_api: ServerApi | None = None,
        load_balanced: bool | None = None,
        is_sync: bool = True,
    ) -> None:
        for name, size in (("max_pool_size", max_pool_size or 0), ("min_pool_size", min_pool_size)):
            expect(name, size, int, "an int")
        if max_pool_size and min_pool_size > max_pool_size:
            raise ValueError(
                f"minPoolSize must be smaller or equal to maxPoolSize: {min_pool_size} > {max_pool_size}"
            )
        self.max_pool_size = max_pool_size
        self.min_pool_size = min_pool_size
        self.max_idle_time_seconds = max_idle_time_seconds
        self.connect_timeout = connect_timeout
        self.socket_timeout = socket_timeout
        self.wait_queue_timeout = wait_queue_timeout
        self.tls_allow_invalid_hostnames = tls_allow_invalid_hostnames
        self.appname = appname
        self.driver = driver
        self.max_connecting = max_connecting
        self.server_api = server_api
        self.load_balanced = load_balanced
        self._drivers = [driver] if driver else []
        self._is_async = not is_sync

    @property
    def metadata(self) -> dict[str, Any]:
        """The client metadata document, made anew on each access."""
        from mangonel.handshake_metadata import client_metadata

        return client_metadata(self.appname, self._drivers, self._is_async)

    @property
    def non_default_options(self) -> dict[str, Any]:
        """The options that differ from their defaults, by URI name, as PoolCreatedEvent reports them."""
        options: dict[str, Any] = {}
        if self.max_pool_size != MAX_POOL_SIZE:
            options["maxPoolSize"] = self.max_pool_size
        if self.min_pool_size != MIN_POOL_SIZE:
            options["minPoolSize"] = self.min_pool_size
        if self.max_idle_time_seconds is not None:
            options["maxIdleTimeMS"] = self.max_idle_time_seconds * 1000
        if self.wait_queue_timeout is not None:
            options["waitQueueTimeoutMS"] = self.wait_queue_timeout * 1000
        if self.max_connecting != MAX_CONNECTING:
            options["maxConnecting"] = self.max_connecting
        return options

    def append_driver(self, driver: DriverInfo) -> bool:
        """Add a library to the metadata; return False if it was already added.

        Args:
            driver: a library that wraps this driver.

        Example:
            >>> client.options.pool_options.append_driver(DriverInfo("another-library", "1.0"))
            True
        """
        if any(_normalized(driver) == _normalized(known) for known in self._drivers):
            return False
        self._drivers.append(driver)
        return True


def _normalized(driver: DriverInfo) -> tuple[str, ...]:
    # None and "" both mean "not given".
    return tuple(field or "" for field in driver)
