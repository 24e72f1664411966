"""Type checkers infer the class of documents from the options, without a cast."""

from __future__ import annotations

from pathlib import Path

from tools.type_checkers import mypy_rows

PROGRAM = """
import io
import re
from collections.abc import Iterator
from typing import Any, TypedDict, assert_type

from mangonel.bson import DEFAULT_CODEC_OPTIONS, SON, CodecOptions, Regex
from mangonel.bson import decode, decode_all, decode_file_iter, decode_iter, encode
from mangonel.bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS, RawBSONDocument

class User(TypedDict):
    name: str

data = b""
maybe: CodecOptions[User] | None = None
ordered = CodecOptions(SON[str, int], tz_aware=True)
plain = CodecOptions(tz_aware=True)

assert_type(ordered, CodecOptions[SON[str, int]])
assert_type(plain, CodecOptions[dict[str, Any]])
assert_type(ordered.document_class, type[SON[str, int]])
assert_type(decode(data), dict[str, Any])
assert_type(decode(data, plain), dict[str, Any])
assert_type(decode(data, DEFAULT_CODEC_OPTIONS), dict[str, Any])
assert_type(decode(data, ordered), SON[str, int])
assert_type(decode(data, CodecOptions(User)), User)
assert_type(decode(data, DEFAULT_RAW_BSON_OPTIONS), RawBSONDocument)
assert_type(decode_all(data, ordered), list[SON[str, int]])
assert_type(decode_iter(data), Iterator[dict[str, Any]])
assert_type(decode_iter(data, ordered), Iterator[SON[str, int]])
assert_type(decode_file_iter(io.BytesIO(), ordered), Iterator[SON[str, int]])
assert_type(Regex("a").pattern, str)
assert_type(Regex(b"a").try_compile(), re.Pattern[bytes])
counts: dict[str, int] = {}
encode(counts)
encode(5)  # type: ignore[arg-type]
decode("text")  # type: ignore[call-overload]
CodecOptions(document_class=int)  # type: ignore[type-var]
"""


def test_document_class_reaches_the_results(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    assert mypy_rows(program) == []
