"""Options for encrypting one value, passed to the library before it begins."""

from __future__ import annotations

from mangonel import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mangonel.encryption._library import Context


class ValueOptions:
    """Options for encrypting one value.

    Args:
        algorithm, key_id, key_alt_name, query_type, contention_factor: as for `ClientEncryption.encrypt`.
        ranges, strings: the encoded options of an index.
    """

    __slots__ = (
        "algorithm",
        "contention_factor",
        "key_alt_name",
        "key_id",
        "query_type",
        "ranges",
        "strings",
    )

    def __init__(
        self,
        algorithm: str,
        key_id: bytes | None = None,
        key_alt_name: str | None = None,
        query_type: str | None = None,
        contention_factor: int | None = None,
        ranges: bytes | None = None,
        strings: bytes | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self.key_alt_name = key_alt_name
        self.query_type = query_type
        self.contention_factor = contention_factor
        self.ranges = ranges
        self.strings = strings

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
