"""A form that arrives in pieces: its texts stay in memory, its files go to disk as they come. Knows no framework."""

from __future__ import annotations

import io
from email.message import Message
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from mangonel.admin._request import MAX_FIELDS, Refused, Upload, query_of
from mangonel.admin._texts import index_of

PIECE = 64 << 10
"""How many bytes of the body a mount reads at once."""
# Bytes; a larger file moves to disk.
IN_MEMORY = 256 << 10
# Bytes of all texts of a form, and of the headers of one part.
MAX_TEXTS = 48 << 20
MAX_HEAD = 16 << 10
# Bytes of a form from a user who is not logged in.
STRANGERS = 64 << 10


def reader_of(content_type: str, user: str | None, limit: int) -> FormReader:
    """Return the reader of a request's form.

    Args:
        content_type: the request's header.
        user: the user. None: the form is a login, which has no files.
        limit: bytes of a user's largest form, uploaded files included.

    Raises:
        Refused: it is no form.
    """
    return FormReader(content_type, limit if user is not None else min(limit, STRANGERS))


def checked_length(text: str | None) -> int:
    """Return the length of a body.

    Raises:
        Refused: it is missing.
    """
    length = index_of(text or "")
    if length is None:
        raise Refused(411, f"expected a form with its Content-Length, got {(text or 'none')[:32]}")
    return length


class FormReader:
    """Reads a form piece by piece.

    Attributes:
        texts: the texts, by name; complete after `finish`.
        files: the files, by name.

    Args:
        content_type: the request's header.
        limit: bytes of the largest form, uploaded files included.

    Raises:
        Refused: it is no form.
    """

    def __init__(self, content_type: str, limit: int) -> None:
        self.texts: dict[str, str] = {}
        self.files: dict[str, Upload] = {}
        self._limit = limit
        self._size = self._texts_size = 0
        kind = content_type.partition(";")[0].strip().lower()
        self._is_multipart = kind == "multipart/form-data"
        if not self._is_multipart and kind != "application/x-www-form-urlencoded":
            raise Refused(415, f"expected a form, got {kind or 'no content type'}")
        message = Message()
        message["Content-Type"] = content_type
        boundary = message.get_param("boundary")
        if self._is_multipart and not (isinstance(boundary, str) and boundary):
            raise Refused(400, "expected a form: multipart without a boundary")
        self._mark = b"\r\n--" + str(boundary).encode("latin-1", "replace")
        # The first boundary has no line break before it.
        self._pending = bytearray(b"\r\n" if self._is_multipart else b"")
        self._step = self._skip if self._is_multipart else self._keep
        self._headers = Message()
        self._part: IO[bytes] | None = None
        self._is_text = self._is_done = False

    def feed(self, piece: bytes) -> None:
        """Take the next piece.

        Raises:
            Refused: the form is too large, or no form.
        """
        self._size += len(piece)
        if self._size > self._limit:
            raise Refused(413, f"expected a form of at most {self._limit} bytes")
        self._pending += piece
        try:
            while self._step():
                pass
        except ValueError as error:
            raise Refused(400, f"expected a form: {error}") from error

    def finish(self) -> None:
        """End the form: the last piece was fed.

        Raises:
            Refused: the form is incomplete.
        """
        try:
            if not self._is_multipart:
                self.texts = query_of(self._pending.decode("utf-8"))
            elif not self._is_done:
                raise ValueError("it does not end")
        except ValueError as error:
            raise Refused(400, f"expected a form: {error}") from error

    def close(self) -> None:
        """Remove the temporary files."""
        for upload in self.files.values():
            upload.file.close()
        if self._part is not None:
            self._part.close()

    # Each step returns whether the bytes so far allow another step.

    def _keep(self) -> bool:
        self._count_text(len(self._pending) - self._texts_size)
        return False

    def _skip(self) -> bool:
        """Skip the bytes before the first boundary."""
        return self._until_mark(lambda data: None)

    def _read_mark(self) -> bool:
        if len(self._pending) < 2:
            return False
        self._is_done = self._pending[:2] == b"--"
        self._step = self._drop if self._is_done else self._read_head
        return True

    def _drop(self) -> bool:
        self._pending.clear()
        return False

    def _read_head(self) -> bool:
        end = self._pending.find(b"\r\n\r\n")
        if end < 0:
            if len(self._pending) > MAX_HEAD:
                raise ValueError("a part without headers")
            return False
        self._headers = _headers_of(bytes(self._pending[:end]).removeprefix(b"\r\n"))
        del self._pending[: end + 4]
        if not isinstance(self._param("name"), str):
            raise ValueError("a part without a name")
        if len(self.texts) + len(self.files) >= MAX_FIELDS:
            raise ValueError(f"more than {MAX_FIELDS} fields")
        self._is_text = self._param("filename") is None
        # `_end_part` or `close` closes it.
        self._part = io.BytesIO() if self._is_text else SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        self._step = self._read_part
        return True

    def _read_part(self) -> bool:
        return self._until_mark(self._take)

    def _until_mark(self, take: Any) -> bool:
        at = self._pending.find(self._mark)
        if at >= 0:
            take(self._pending[:at])
            del self._pending[: at + len(self._mark)]
            self._end_part()
            self._step = self._read_mark
            return True
        # Its last bytes may be the beginning of a boundary.
        safe = len(self._pending) - len(self._mark) + 1
        if safe > 0:
            take(self._pending[:safe])
            del self._pending[:safe]
        return False

    def _take(self, data: bytearray) -> None:
        if self._is_text:
            self._count_text(len(data))
        if self._part is not None:
            self._part.write(data)

    def _count_text(self, size: int) -> None:
        self._texts_size += size
        if self._texts_size > MAX_TEXTS:
            raise Refused(413, f"expected at most {MAX_TEXTS} bytes of text in a form")

    def _end_part(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        name = _unquoted(str(self._param("name")))
        if isinstance(part, io.BytesIO):
            self.texts[name] = part.getvalue().decode("utf-8")
            return
        file = _unquoted(str(self._param("filename")))
        if not file and not part.tell():
            # No file was chosen.
            part.close()
            return
        if name in self.files:
            self.files[name].file.close()
        part.seek(0)
        self.files[name] = Upload(file, self._headers.get_content_type(), part)

    def _param(self, name: str) -> Any:
        return self._headers.get_param(name, header="content-disposition")


def _headers_of(head: bytes) -> Message:
    message = Message()
    for line in head.decode("utf-8").split("\r\n"):
        name, _, value = line.partition(":")
        message[name.strip()] = value.strip()
    return message


def _unquoted(text: str) -> str:
    # Browsers escape the characters that would end the quoted name.
    return text.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
