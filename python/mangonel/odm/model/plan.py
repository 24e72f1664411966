"""`model.__plan__`: a model's fields with their annotations evaluated, and the plan that the core decodes by.

Every floor reads it as an attribute of the class; nothing is evaluated before the model is first used.
"""

from __future__ import annotations

from typing import Any

from mangonel.odm.model.describe import describe, resolve_field
from mangonel.odm.model.fields import Resolved


class Plan:
    """What a model's annotations mean.

    Attributes:
        model: the class.
        fields: by attribute, in the order of the slots.
        by_key: the same by key in the database.
        id: the field that is the document's `_id`, or None.
        is_plain: whether saving runs no hooks, stamps no times and counts nothing; None until that is asked.
    """

    __slots__ = ("_hide", "by_key", "fields", "id", "is_plain", "model")
    fields: dict[str, Resolved]
    by_key: dict[str, Resolved]
    id: Resolved | None

    def __init__(self, model: Any, hide: Any) -> None:
        self.model = model
        self._hide = hide
        self.is_plain: bool | None = None

    def __getattr__(self, name: str) -> Any:
        # Empty slots only: the fields are not evaluated yet.
        if name not in ("fields", "by_key", "id"):
            raise AttributeError(name)
        self.fields = {name: resolve_field(self.model, info) for name, info in self.model.__fields__.items()}
        self.by_key = {field.key: field for field in self.fields.values()}
        self.id = self.by_key.get("_id")
        return getattr(self, name)

    def compile(self) -> None:
        """Give the core its plan; it asks for it when the model is first used.

        Raises:
            TypeError: an annotation cannot be stored, or names something that does not exist.
        """
        self.model.__model__.compile(describe(self.model))

    def make_partial(self) -> None:
        """Make the hidden class of partly loaded instances; the core asks for it with the first of them."""
        self._hide(self.model)
