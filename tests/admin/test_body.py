"""A form is read the same in any pieces, and anything else is refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangonel.admin import _body
from mangonel.admin._body import FormReader, checked_length
from mangonel.admin._request import Refused

KIND = "multipart/form-data; boundary=edge"
FORM = (
    b'before\r\n--edge\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--edg\r\n--edge\r\n'
    b'Content-Disposition: form-data; name="empty"\r\n\r\n\r\n--edge\r\n'
    b'Content-Disposition: form-data; name="f%22!"; filename="x.png"\r\nContent-Type: image/png\r\n\r\n'
    b"\r\n--edge"[:-1]
    + b"\0\xff\r\n--edge\r\n"
    b'Content-Disposition: form-data; name="none!"; filename=""\r\n\r\n\r\n--edge--\r\nafter'
)


def read(pieces: list[bytes], kind: str = KIND, limit: int = 1 << 20) -> FormReader:
    reader = FormReader(kind, limit)
    for piece in pieces:
        reader.feed(piece)
    reader.finish()
    return reader


@given(st.lists(st.integers(0, len(FORM)), max_size=20))
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(FORM)]
    reader = read([FORM[start:end] for start, end in itertools.pairwise(ends)])
    assert reader.texts == {"a": "1\r\n--edg", "empty": ""}
    ((name, upload),) = reader.files.items()
    assert (name, upload.name, upload.kind) == ('f"!', "x.png", "image/png")
    assert upload.file.read() == b"\r\n--edg\0\xff"
    reader.close()
    assert upload.file.closed


def test_every_single_cut_is_read_the_same() -> None:
    whole = read([FORM])
    for cut in range(len(FORM)):
        reader = read([FORM[:cut], FORM[cut:]])
        assert reader.texts == whole.texts
        assert reader.files.keys() == whole.files.keys()
        reader.close()
    whole.close()


def test_a_large_file_leaves_the_memory() -> None:
    head = b'--edge\r\nContent-Disposition: form-data; name="f!"; filename="x"\r\n\r\n'
    piece = b"x" * _body.PIECE
    reader = FormReader(KIND, 64 << 20)
    reader.feed(head)
    for _ in range(64):
        reader.feed(piece)
        assert len(reader._pending) <= len(piece)
    reader.feed(b"\r\n--edge--")
    reader.finish()
    file = reader.files["f!"].file
    # Only this attribute shows whether it has left memory.
    assert file._rolled  # type: ignore[attr-defined]
    assert sum(len(part) for part in iter(lambda: file.read(_body.PIECE), b"")) == 64 * len(piece)
    reader.close()


@pytest.mark.parametrize(
    ("kind", "data", "status"),
    [
        ("text/plain", b"", 415),
        ("", b"", 415),
        ("multipart/form-data", b"", 400),
        (KIND, b"", 400),
        (KIND, FORM[:-20], 400),
        (KIND, b"--edge\r\n\r\nx\r\n--edge--", 400),
        (KIND, b"--edge\r\nContent-Type: text/plain\r\n\r\nx\r\n--edge--", 400),
        (KIND, b'--edge\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--edge--', 400),
        (KIND, b"--edge" + b"x" * (20 << 10), 400),
        (KIND, b"x" * (2 << 20), 413),
        ("application/x-www-form-urlencoded", b"x" * (2 << 20), 413),
        ("application/x-www-form-urlencoded", b"\xff", 400),
    ],
)
def test_what_is_no_form_is_refused(kind: str, data: bytes, status: int) -> None:
    with pytest.raises(Refused) as raised:
        read([data], kind)
    assert raised.value.status == status


def test_texts_have_a_limit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_body, "MAX_TEXTS", 100)
    for kind in (KIND, "application/x-www-form-urlencoded"):
        with pytest.raises(Refused, match="at most 100 bytes of text"):
            read([b'--edge\r\nContent-Disposition: form-data; name="a"\r\n\r\n', b"x" * 500], kind)


@pytest.mark.parametrize("length", ["", "-1", "²", "9" * 5000])
def test_a_length_that_is_none_is_refused(length: str) -> None:
    with pytest.raises(Refused, match="expected a form with its Content-Length, got"):
        checked_length(length)
