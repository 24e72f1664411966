"""The class of sockets that the blocking face opens."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator

import pytest

from mangonel._faces.native_socket import NativeSocket
from mangonel._faces.sockets import open_socket


def five_seconds() -> float:
    return 5


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


def test_a_socket_that_is_dropped_is_closed_without_a_warning(address: tuple[str, int]) -> None:
    opened = open_socket(address, five_seconds)
    descriptor = opened.fileno()

    # A warning would run Python code, and lose an exception that a signal handler raises in it.
    assert type(opened) is NativeSocket
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        del opened
    assert not warned
    with pytest.raises(OSError, match=r"Bad file descriptor|handle"):
        os.fstat(descriptor)


def test_sockets_are_those_that_somebody_put_into_the_module(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Redirected(socket.socket):
        pass

    monkeypatch.setattr(socket, "socket", Redirected)
    opened = open_socket(address, five_seconds)

    assert type(opened) is Redirected
    opened.close()


def test_names_are_looked_up_by_what_somebody_put_into_the_module(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _name, *rest: look_up(address[0], *rest))

    open_socket(("unknown.name.test", address[1]), five_seconds).close()


def test_without_unix_sockets_a_host_and_a_port_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import _socket

    monkeypatch.delattr(_socket, "AF_UNIX", raising=False)
    monkeypatch.delattr(socket, "AF_UNIX", raising=False)
    with pytest.raises(OSError, match=r"expected a host and a port, .*, got '/tmp/mongodb\.sock'"):
        open_socket(("/tmp/mongodb.sock", None), five_seconds)
