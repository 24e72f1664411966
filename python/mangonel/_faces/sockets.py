"""Opens plain sockets and waits for locks, in the same way for every face. Knows no MongoDB."""

from __future__ import annotations

import _thread
import os
import sys
from time import monotonic

from mangonel._core import run_now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from _thread import LockType
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from mangonel._faces.port import Address
    from mangonel._options.proxy import Proxy

IS_WINDOWS = sys.platform == "win32"
_LONGEST_WAIT_S = 1
_KEEPALIVE_IDLE_S = 120
_KEEPALIVE_INTERVAL_S = 10
_KEEPALIVE_PROBES = 9


def _socket_module() -> ModuleType:
    """Return the native half of `socket`, which imports faster, or a patched `socket` module."""
    socket = sys.modules.get("socket")
    # Another thread may be importing it. gevent, and programs that redirect connections, patch that module.
    for name in ("socket", "getaddrinfo"):
        if getattr(getattr(socket, name, None), "__module__", "socket") != "socket":
            return socket  # type: ignore[return-value]  # it has the names, so it is a module
    import _socket

    return _socket


def resolve(address: Address) -> list[tuple[int, Any]]:
    """Return the families and socket addresses of `address`. Blocks during name look-up."""
    socket = _socket_module()
    host, port = address
    if port is None:
        if not hasattr(socket, "AF_UNIX"):
            raise OSError(f"expected a host and a port, since Python has no Unix sockets here, got {host!r}")
        return [(socket.AF_UNIX, host)]
    # mongod listens only on 127.0.0.1 by default, while "localhost" may resolve to ::1 first.
    family = socket.AF_INET if host == "localhost" else socket.AF_UNSPEC
    # As bytes, since a str goes through the IDNA codec, whose import takes milliseconds.
    name = host.encode() if host.isascii() else host
    try:
        found = socket.getaddrinfo(name, port, family, socket.SOCK_STREAM)
    except ValueError as error:
        # A name with a NUL, or one that IDNA refuses.
        raise OSError(str(error)) from None
    return [(entry[0], entry[4]) for entry in found]


def is_numeric(address: Address) -> bool:
    """Return whether `address` can be resolved without a name server."""
    host, port = address
    if port is None or host == "localhost":
        return True
    socket = _socket_module()
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except (OSError, ValueError):
        return False
    return True


class Lookup:
    """A name look-up in its own thread, which nothing can interrupt, shared by all callers that wait for it.

    Attributes:
        is_done: whether there is a result; a waker added later is not called.
        wakers: functions; that thread calls each once.
    """

    __slots__ = ("_failure", "_found", "is_done", "wakers")

    def __init__(self) -> None:
        self._failure: Exception | None = None
        self._found: list[tuple[int, Any]] = []
        self.is_done = False
        self.wakers: list[Callable[[], object]] = []

    @property
    def answer(self) -> list[tuple[int, Any]]:
        """Return the result of `resolve`, or raise its error."""
        if self._failure is not None:
            raise self._failure
        return self._found

    def run(self, address: Address, key: tuple[int, Address]) -> None:
        """Look `address` up, and wake the waiting callers."""
        try:
            self._found = resolve(address)
        except Exception as error:
            self._failure = error
        _lookups.pop(key, None)
        self.is_done = True
        while self.wakers:
            self.wakers.pop()()


# Running look-ups, shared so that a hanging resolver holds one thread per name, however often a name is looked up.
_lookups: dict[tuple[int, Address], Lookup] = {}


def begin_lookup(address: Address) -> Lookup:
    """Return the running look-up of `address`, or a new one."""
    # A forked child has none of its parent's threads.
    key = os.getpid(), address
    lookup = _lookups.get(key)
    if lookup is None:
        lookup = _lookups[key] = Lookup()
        try:
            _thread.start_new_thread(lookup.run, (address, key))
        except RuntimeError:
            # There are too many threads, or the interpreter is shutting down.
            lookup.run(address, key)
    return lookup


def _resolve_within(address: Address, seconds: float | None) -> list[tuple[int, Any]]:
    """Resolve as `resolve` does, but wait for a name server at most `seconds`.

    Raises:
        TimeoutError: there was no answer.
    """
    if seconds is None or is_numeric(address):
        return resolve(address)
    late = f"no name server answered for {address[0]!r} within {seconds:.3g} s"
    if is_patched_by_gevent():
        from gevent import Timeout  # type: ignore[import-untyped]

        with Timeout(seconds, TimeoutError(late)):
            return resolve(address)
    lookup = begin_lookup(address)
    woken = _thread.allocate_lock()
    woken.acquire()
    lookup.wakers.append(woken.release)
    if not lookup.is_done and not acquire_within(woken, seconds):
        raise TimeoutError(late)
    return lookup.answer


def acquire_within(lock: LockType, seconds: float | None) -> bool:
    """Acquire the lock as `lock.acquire` does, but let signals interrupt it. None: wait for ever."""
    if not IS_WINDOWS:
        return lock.acquire(timeout=-1 if seconds is None else seconds)
    # The call itself cannot be interrupted, so signals are checked in between.
    until = None if seconds is None else monotonic() + seconds
    while True:
        left = _LONGEST_WAIT_S if until is None else max(0, until - monotonic())
        if lock.acquire(timeout=min(left, _LONGEST_WAIT_S)):
            return True
        if until is not None and left <= _LONGEST_WAIT_S:
            return False


def tune(sock: socket) -> None:
    """Set the options of every connection: small messages are not delayed, and idle connections are probed."""
    socket = _socket_module()
    if sock.family == getattr(socket, "AF_UNIX", None):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def open_socket(
    address: Address,
    limit: Callable[[], float | None],
    proxy: Proxy | None = None,
    heard: Callable[[str], object] | None = None,
) -> socket:
    """Return a connected socket in blocking mode.

    Args:
        address: the address to connect to.
        proxy: connect through it; None connects directly. A Unix socket is never reached through a proxy.
        limit: returns the seconds for the next step; the name look-up is a step, and so is each address.
        heard: called with the proxy's name once it was reached.

    Raises:
        OSError: connecting to every address failed; the last one's error. `TimeoutError` if it took too long.
    """
    if proxy is not None and address[1] is not None:
        return _through(proxy, address, limit, heard)
    module = _socket_module()
    make = module.socket
    if module.__name__ == "_socket":
        from mangonel._faces.native_socket import NativeSocket

        make = NativeSocket
    failure: OSError = OSError(f"expected {address[0]!r} to resolve to an address, got none")
    for family, target in _resolve_within(address, limit()):
        sock: socket = make(family, module.SOCK_STREAM)
        try:
            sock.settimeout(limit())
            sock.connect(target)
            tune(sock)
            sock.settimeout(None)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


def _through(
    proxy: Proxy,
    address: Address,
    limit: Callable[[], float | None],
    heard: Callable[[str], object] | None,
) -> socket:
    """Return a socket that the proxy has connected to `address`."""
    try:
        sock = open_socket(proxy.address, limit)
    except OSError as error:
        raise proxy.named(error) from None

    async def send(message: bytes) -> None:
        sock.settimeout(limit())
        sock.sendall(message)

    async def receive(size: int) -> bytes:
        sock.settimeout(limit())
        return sock.recv(size)

    try:
        if heard is not None:
            heard(proxy.name)
        run_now(proxy.connect_flow(address, send, receive))
        sock.settimeout(None)
    except TimeoutError:
        sock.close()
        raise proxy.silence() from None
    except BaseException:
        sock.close()
        raise
    return sock


def wait_readable(sock: socket) -> None:
    """Wait, as long as the socket's timeout, until bytes can be received or the peer has closed. Takes no byte.

    Raises:
        TimeoutError: the time is over.
    """
    fd, seconds = sock.fileno(), sock.gettimeout()
    if fd < 0:
        # Another thread closed the socket: receiving raises the error.
        return
    if is_patched_by_gevent():
        from gevent.socket import wait_read  # type: ignore[import-untyped]

        wait_read(fd, seconds)
        return
    import select

    if IS_WINDOWS:
        # On Windows `select` has no limit on the number of a descriptor, and there is no `poll`.
        ready: Any = select.select([fd], [], [], seconds)[0]
    else:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        ready = poll.poll(None if seconds is None else seconds * 1000)
    if not ready:
        raise TimeoutError("timed out")


def is_patched_by_gevent() -> bool:
    """Return whether sockets are cooperative in this process, so that native code must not block."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("socket"))
