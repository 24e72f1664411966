"""`model.__plan__`: a model's fields with evaluated annotations, and the plan that the core decodes by.

Every floor reads it as an attribute of the class; nothing is evaluated before the model's first use.
"""

from __future__ import annotations

from typing import Any

from mangonel.odm.model.describe import describe, resolve_field
from mangonel.odm.model.fields import Resolved


class Plan:
    """The evaluated annotations of a model.

    Attributes:
        model: the class.
        fields: by attribute, in the order of the slots.
        by_key: by key in the database.
        id: the field of the document's `_id`, or None.
        is_plain: whether saving runs no hooks, sets no times and counts nothing; None until first use.
        short: the values for reading a single document the short way; None until first use.
    """

    __slots__ = ("_hide", "by_key", "fields", "id", "is_plain", "model", "short")
    fields: dict[str, Resolved]
    by_key: dict[str, Resolved]
    id: Resolved | None

    def __init__(self, model: Any, hide: Any) -> None:
        self.model = model
        self._hide = hide
        self.is_plain: bool | None = None
        self.short: tuple[Any, Any, Any] | None = None

    def compile(self) -> None:
        """Give the core its plan; the core calls this at the model's first use.

        Raises:
            TypeError: an annotation cannot be stored, or names something that does not exist.
        """
        self.model.__model__.compile(describe(self.model))

    def make_partial(self) -> None:
        """Make the hidden class of partly loaded instances; the core calls this for the first of them."""
        self._hide(self.model)


class UnreadPlan(Plan):
    """A plan whose fields are not evaluated yet: reading the first attribute turns it into a `Plan`.

    It is a separate class, since reading an attribute costs more in a class with `__getattr__`.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        # Only empty slots.
        if name not in ("fields", "by_key", "id"):
            raise AttributeError(name)
        self.fields = {name: resolve_field(self.model, info) for name, info in self.model.__fields__.items()}
        self.by_key = {field.key: field for field in self.fields.values()}
        self.id = self.by_key.get("_id")
        self.__class__ = Plan  # type: ignore[assignment]  # to mypy a class is no value
        return getattr(self, name)
