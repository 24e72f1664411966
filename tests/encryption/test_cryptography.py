"""The compiled functions for libmongocrypt: they equal Python's, and the standards' examples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pymongocrypt")
from pymongocrypt.binding import ffi, lib

from mangonel.encryption import _cryptography

TELL = ffi.cast("void *", ffi.addressof(lib, "mongocrypt_status_set"))
KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
blocks = st.integers(0, 9).flatmap(lambda count: st.binary(min_size=16 * count, max_size=16 * count))


def view(data: Any) -> Any:
    """Return the library's view of `data`; its memory lives as long as `keep`."""
    made = ffi.new("mongocrypt_binary_t *")
    made.data, made.len = ffi.from_buffer(data), len(data)
    return made


def call(function: Any, *inputs: bytes, room: int, is_cipher: bool) -> tuple[bool, bytes, str]:
    """Return whether it succeeded, the output, and the text of the status."""
    status = ffi.gc(lib.mongocrypt_status_new(), lib.mongocrypt_status_destroy)
    space, written = bytearray(room), ffi.new("uint32_t *")
    output = view(space)
    more = [written] if is_cipher else []
    is_well = function(TELL, *map(view, inputs), output, *more, status)
    count = written[0] if is_cipher else output.len
    text = lib.mongocrypt_status_message(status, ffi.NULL)
    return bool(is_well), bytes(space[:count]), "" if text == ffi.NULL else ffi.string(text).decode()


def cipher(name: str, key: bytes, iv: bytes, data: bytes, kind: Any = None) -> tuple[bool, bytes, str]:
    functions = kind or _cryptography.compiled()
    return call(functions[name], key, iv, data, room=len(data), is_cipher=True)


def test_the_library_is_as_the_compiled_functions_know_it() -> None:
    assert _cryptography.is_known()
    assert _cryptography.compiled().keys() == _cryptography.PYTHON.keys()


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16), blocks)
@settings(max_examples=40, deadline=None)
def test_blocks_are_as_from_python(key: bytes, iv: bytes, data: bytes) -> None:
    for name in ("cbc_encrypt", "cbc_decrypt"):
        assert cipher(name, key, iv, data) == cipher(name, key, iv, data, _cryptography.PYTHON)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16), st.binary(max_size=100))
@settings(max_examples=40, deadline=None)
def test_streams_are_as_from_python(key: bytes, iv: bytes, data: bytes) -> None:
    assert cipher("ctr", key, iv, data) == cipher("ctr", key, iv, data, _cryptography.PYTHON)


@given(st.binary(max_size=200), st.binary(max_size=300))
@settings(max_examples=40, deadline=None)
def test_hashes_are_as_from_python(key: bytes, data: bytes) -> None:
    ours, theirs = _cryptography.compiled(), _cryptography.PYTHON
    for name, inputs in {"sha_256": [data], "hmac_sha_256": [key, data], "hmac_sha_512": [key, data]}.items():
        found = call(ours[name], *inputs, room=64, is_cipher=False)
        assert found == call(theirs[name], *inputs, room=64, is_cipher=False)
        assert found[0]


def test_the_examples_of_nist_come_out() -> None:
    # SP 800-38A, F.2.5 and F.5.5.
    iv = bytes(range(16))
    chained = bytes.fromhex(
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"
        "39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b"
    )
    assert cipher("cbc_encrypt", KEY, iv, PLAIN) == (True, chained, "")
    assert cipher("cbc_decrypt", KEY, iv, chained) == (True, PLAIN, "")
    counter = bytes(range(0xF0, 0x100))
    stream = bytes.fromhex(
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )
    assert cipher("ctr", KEY, counter, PLAIN) == (True, stream, "")
    assert cipher("ctr", KEY, counter, stream) == (True, PLAIN, "")
    # FIPS 180-4, "abc".
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    ours = _cryptography.compiled()
    assert call(ours["sha_256"], b"abc", room=32, is_cipher=False)[1].hex() == digest


@pytest.mark.parametrize(
    ("key", "iv", "data"),
    [(KEY[1:], bytes(16), PLAIN), (KEY, bytes(15), PLAIN), (KEY, bytes(16), PLAIN[1:])],
    ids=["key", "vector", "input"],
)
def test_a_wrong_length_is_told_without_the_values(key: bytes, iv: bytes, data: bytes) -> None:
    is_well, output, text = cipher("cbc_encrypt", key, iv, data)
    assert (is_well, output) == (False, b"")
    assert "wrong length" in text


def test_an_output_that_is_too_short_is_not_written() -> None:
    ours = _cryptography.compiled()
    assert not call(ours["hmac_sha_512"], KEY, PLAIN, room=63, is_cipher=False)[0]
    found = call(ours["ctr"], KEY, bytes(16), PLAIN, room=len(PLAIN) - 1, is_cipher=True)
    assert not found[0]
    assert found[1] == b""


def test_an_output_may_be_where_its_input_is() -> None:
    ours, iv = _cryptography.compiled(), bytes(16)
    status = ffi.gc(lib.mongocrypt_status_new(), lib.mongocrypt_status_destroy)
    for name in ("cbc_encrypt", "cbc_decrypt", "ctr"):
        space, written = bytearray(PLAIN), ffi.new("uint32_t *")
        same = view(space)
        assert ours[name](TELL, view(KEY), view(iv), same, same, written, status)
        assert (True, bytes(space), "") == cipher(name, KEY, iv, PLAIN)
