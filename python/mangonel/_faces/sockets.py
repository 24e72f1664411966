"""Opening plain sockets, and waiting for a lock, the same way for every face. Knows no MongoDB."""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock, start_new_thread
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from _thread import LockType
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from mangonel._faces.port import Address

IS_WINDOWS = sys.platform == "win32"
_LONGEST_WAIT_S = 1
_KEEPALIVE_IDLE_S = 120
_KEEPALIVE_INTERVAL_S = 10
_KEEPALIVE_PROBES = 9


def _socket_module() -> ModuleType:
    """Return the native half of `socket`, which is imported quicker, or what somebody made of `socket`."""
    socket = sys.modules.get("socket")
    # Another thread may be in the middle of its import. gevent and those who redirect connections put theirs there.
    for name in ("socket", "getaddrinfo"):
        if getattr(getattr(socket, name, None), "__module__", "socket") != "socket":
            return socket  # type: ignore[return-value]  # it has the names, so it is a module
    import _socket

    return _socket


def resolve(address: Address) -> list[tuple[int, Any]]:
    """Return the families and socket addresses that `address` stands for. Blocks while names are looked up."""
    socket = _socket_module()
    host, port = address
    if port is None:
        if not hasattr(socket, "AF_UNIX"):
            raise OSError(f"expected a host and a port, since Python has no Unix sockets here, got {host!r}")
        return [(socket.AF_UNIX, host)]
    # mongod listens on 127.0.0.1 alone by default, while "localhost" may resolve to ::1 first.
    family = socket.AF_INET if host == "localhost" else socket.AF_UNSPEC
    # As bytes, since a str is put through the IDNA codec, whose import takes milliseconds.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, port, family, socket.SOCK_STREAM)
    return [(entry[0], entry[4]) for entry in found]


def is_numeric(address: Address) -> bool:
    """Return whether `address` is resolved without asking a name server."""
    host, port = address
    if port is None or host == "localhost":
        return True
    socket = _socket_module()
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        return False
    return True


class Lookup:
    """A name that is looked up in a thread of its own, which nothing can interrupt, for all who wait for it.

    Attributes:
        is_done: whether there is an answer; a waker that is added later is not called.
        wakers: each is called once, from that thread.
    """

    __slots__ = ("_failure", "_found", "is_done", "wakers")

    def __init__(self) -> None:
        self._failure: Exception | None = None
        self._found: list[tuple[int, Any]] = []
        self.is_done = False
        self.wakers: list[Callable[[], object]] = []

    @property
    def answer(self) -> list[tuple[int, Any]]:
        """What `resolve` returns or raises."""
        if self._failure is not None:
            raise self._failure
        return self._found

    def run(self, address: Address, key: tuple[int, Address]) -> None:
        """Look `address` up, and wake who waits."""
        try:
            self._found = resolve(address)
        except Exception as error:
            self._failure = error
        _lookups.pop(key, None)
        self.is_done = True
        while self.wakers:
            self.wakers.pop()()


# Under way. So a resolver that hangs holds one thread for each name, however often it is asked for.
_lookups: dict[tuple[int, Address], Lookup] = {}


def begin_lookup(address: Address) -> Lookup:
    """Return the lookup of `address` that is under way, or a new one."""
    # A forked child has none of its parent's threads.
    key = os.getpid(), address
    lookup = _lookups.get(key)
    if lookup is None:
        lookup = _lookups[key] = Lookup()
        try:
            start_new_thread(lookup.run, (address, key))
        except RuntimeError:
            # There are too many threads, or the interpreter ends.
            lookup.run(address, key)
    return lookup


def _resolve_within(address: Address, seconds: float | None) -> list[tuple[int, Any]]:
    """Do what `resolve` does, but wait for a name server no longer than `seconds`.

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
    woken = allocate_lock()
    woken.acquire()
    lookup.wakers.append(woken.release)
    if not lookup.is_done and not acquire_within(woken, seconds):
        raise TimeoutError(late)
    return lookup.answer


def acquire_within(lock: LockType, seconds: float | None) -> bool:
    """Do what `lock.acquire` does, and be interrupted by signals; None: wait for ever."""
    if not IS_WINDOWS:
        return lock.acquire(timeout=-1 if seconds is None else seconds)
    # Nothing interrupts it there, but signals are looked at in between.
    until = None if seconds is None else monotonic() + seconds
    while True:
        left = _LONGEST_WAIT_S if until is None else max(0, until - monotonic())
        if lock.acquire(timeout=min(left, _LONGEST_WAIT_S)):
            return True
        if until is not None and left <= _LONGEST_WAIT_S:
            return False


def tune(sock: socket) -> None:
    """Set what every connection wants: no delay of small messages, and probes on a connection that is idle for long."""
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


def open_socket(address: Address, limit: Callable[[], float | None]) -> socket:
    """Return a connected socket in blocking mode.

    Args:
        address: where to connect to.
        limit: tells how many seconds the next step may take; looking the name up is one, and each of its addresses.

    Raises:
        OSError: no address could be connected to; the last one's failure. `TimeoutError` when it took too long.
    """
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


def is_patched_by_gevent() -> bool:
    """Return whether sockets are cooperative in this process, so that nobody may block behind their back."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("socket"))
