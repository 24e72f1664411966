"""A SOCKS5 proxy on loopback that records its requests."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class SocksProxy:
    """Serves each connection in threads.

    Args:
        credentials: the user and password that it wants; None: none.
        route: where it connects to, in place of what it was asked for; None: to what it was asked for.
        refusal: the reply code for each request; 0 connects.
    """

    def __init__(
        self,
        credentials: tuple[bytes, bytes] | None = None,
        route: tuple[str, int] | None = None,
        refusal: int = 0,
    ) -> None:
        self._credentials, self._route, self._refusal = credentials, route, refusal
        # Whether new connections get no reply.
        self.is_silent = False
        self.asked: list[tuple[str, int]] = []
        # The types of the requested addresses.
        self.kinds: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        # A blocked accept does not notice a close; a shutdown wakes it.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.add(client)
        with client, contextlib.suppress(OSError, EOFError):
            if self.is_silent:
                self._read(client, 1 << 20)
            _, count = self._read(client, 2)
            methods = self._read(client, count)
            if self._credentials is not None:
                if 2 not in methods:
                    client.sendall(b"\x05\xff")
                    return
                client.sendall(b"\x05\x02")
                self._read(client, 1)
                given = tuple(self._read(client, self._read(client, 1)[0]) for _ in range(2))
                client.sendall(b"\x01\x00" if given == self._credentials else b"\x01\x01")
                if given != self._credentials:
                    return
            else:
                client.sendall(b"\x05\x00")
            *head, kind = self._read(client, 4)
            assert head == [5, 1, 0]
            if kind == 3:
                host = self._read(client, self._read(client, 1)[0]).decode()
            else:
                family = {1: socket.AF_INET, 4: socket.AF_INET6}[kind]
                host = socket.inet_ntop(family, self._read(client, 4 if kind == 1 else 16))
            self.kinds.append(kind)
            place = host, int.from_bytes(self._read(client, 2))
            self.asked.append(place)
            if self._refusal:
                client.sendall(bytes([5, self._refusal, 0, 1]) + bytes(6))
                return
            with socket.create_connection(self._route or place) as server:
                self._open.add(server)
                # Sends a name as its own address, byte by byte, which a client must accept.
                for byte in b"\x05\x00\x00\x03\x04here\x00\x50":
                    client.sendall(bytes([byte]))
                back = threading.Thread(target=self._copy, args=(server, client), daemon=True)
                back.start()
                self._copy(client, server)
                back.join()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _read(self, sock: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = sock.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data
