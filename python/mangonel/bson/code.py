"""JavaScript code, with or without a scope. Spec: bson, types 0x0D and 0x0F."""

from __future__ import annotations

from mangonel._arguments import expect_instance
from mangonel._light import Mapping
from mangonel.bson import schema_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


class Code(str):
    """A str that is stored as JavaScript code.

    Args:
        code: the source; a Code also supplies its scope.
        scope: variables for the code; None and an empty mapping are different to the server.
        **kwargs: more variables; they are added to `scope` itself.

    Raises:
        TypeError: `code` is not a str, or `scope` not a mapping.

    Example:
        >>> Code("return x", {"x": 1}).scope
        {'x': 1}
    """

    # The codec reads and writes the slot directly.
    __slots__ = ("__scope",)
    _type_marker = 13

    __scope: Mapping[str, Any] | None

    def __new__(cls, code: str | Code, scope: Mapping[str, Any] | None = None, **kwargs: Any) -> Self:
        expect_instance("code", code, str)
        if scope is not None and not isinstance(scope, Mapping):
            raise TypeError(f'expected a mapping for "scope", got {type(scope).__name__}')
        self = str.__new__(cls, code)
        own = code.scope if isinstance(code, Code) else None
        # Added in place: with PyMongo's bson, too, callers see their own mapping grow.
        for extra in (scope, kwargs or None):
            if extra is not None:
                if own is None:
                    own = extra
                else:
                    own.update(extra)  # type: ignore[attr-defined]
        self.__scope = own
        return self

    @property
    def scope(self) -> Mapping[str, Any] | None:
        """The variables for the code, or None."""
        return self.__scope

    def __getstate__(self) -> dict[str, Any]:
        return {"_Code__scope": self.__scope}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__scope = state["_Code__scope"]

    def __repr__(self) -> str:
        return f"Code({str.__repr__(self)}, {self.__scope!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Code):
            return (self.__scope, str(self)) == (other.__scope, str(other))
        return False

    # Not hashable, since the scope is mutable.
    __hash__ = None  # type: ignore[assignment]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __get_pydantic_core_schema__ = classmethod(schema_of)
