"""Options for encrypting one value, passed to the library before it begins to encrypt."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mangonel import _core

if TYPE_CHECKING:
    from mangonel.encryption._library import Context


class ValueOptions(NamedTuple):
    """Options for encrypting one value: those of `ClientEncryption.encrypt`, and an index's options, encoded."""

    algorithm: str
    key_id: bytes | None = None
    key_alt_name: str | None = None
    query_type: str | None = None
    contention_factor: int | None = None
    ranges: bytes | None = None
    strings: bytes | None = None

    def begin(self, context: Context, what: str, document: bytes) -> None:
        """Set up a context and begin it with a value.

        Raises:
            MongoCryptError: the options do not fit each other or the value.
        """
        context.set_algorithm(self.algorithm)
        if self.key_id is not None:
            context.set_key_id(self.key_id)
        if self.key_alt_name is not None:
            context.set_document("key_alt_name", _core.encode({"keyAltName": self.key_alt_name}))
        if self.query_type is not None:
            context.set_query_type(self.query_type)
        if self.contention_factor is not None:
            context.set_contention(self.contention_factor)
        if self.ranges is not None:
            context.set_document("algorithm_range", self.ranges)
        if self.strings is not None:
            context.set_document("algorithm_text", self.strings)
        context.begin(what, document)
