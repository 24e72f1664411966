"""`Shown`: the program's settings for a model in the admin; `ShownModel`: the same with defaults, for the pages."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mangonel.admin._forms import described, fields_of, is_secret
from mangonel.admin._texts import Spec, leaf_of
from mangonel.odm._registry import documents, is_document_class
from mangonel.odm.connections.connection import connection
from mangonel.odm.connections.tenants import ALL, tenant_or_all
from mangonel.odm.model.inputs import Input, Patch, fields_not_set

COLUMNS = 6
# Types of fields that a list shows by default and can be sorted by.
SIMPLE = frozenset(
    {"str", "int", "float", "bool", "datetime", "date", "object_id", "decimal", "literal", "enum", "ref"}
)
CHOSEN = frozenset({"bool", "literal", "enum"})


@dataclass(frozen=True)
class Shown:
    """A model in the admin, and how it is shown. All attributes but the model have defaults derived from it.

    Args:
        model: a document class.
        columns: the fields of the list.
        search: the fields that are searched for a text. Empty: the model's text index, or its first text fields.
        filters: the fields by which the list is narrowed: options, yes and no, and references.
        order: a field by which the list is sorted at first, with a minus for descending.
        hidden: fields that are not shown at all, also not for subclasses. A search or a filter by one is refused, since
            its result would reveal the value; `order` may be one.
        fixed: fields that are shown but cannot be changed, also not for subclasses.
        label: returns the name of a document on links. None: the value of its first text field.
        read_only: nothing can be changed.

    Raises:
        TypeError: the model is no document class, a name is no field of it, or `search`, `filters` or `order` names a
            field whose value it would reveal.

    Example:
        >>> Shown(User, columns=("name", "age"), order="-age").columns
        ('name', 'age')
    """

    model: Any
    columns: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    order: str = "-id"
    hidden: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    label: Callable[[Any], str] | None = None
    read_only: bool = False

    def __post_init__(self) -> None:
        if not is_document_class(self.model):
            raise TypeError(f"expected a document class, got {self.model!r}")
        known = self.model.__plan__.fields
        for name in (
            *self.columns,
            *self.search,
            *self.filters,
            self.order.lstrip("-"),
            *self.hidden,
            *self.fixed,
        ):
            if name not in known:
                raise TypeError(f"{self.model.__name__} has no field {name!r}; it has {', '.join(known)}")
        for option, names in (("search", self.search), ("filters", self.filters), ("order", (self.order,))):
            for name in (name.lstrip("-") for name in names):
                is_hidden = option != "order" and name in self.hidden
                if is_hidden or is_secret(self.model, name) or _is_sealed(described(self.model, name)):
                    raise TypeError(
                        f"expected fields of {self.model.__name__} that are shown as {option}=, got {name!r}, whose "
                        "value the result would tell"
                    )


class ShownModel(Shown):
    """A model in the admin with all its settings, as the pages use it."""

    # All models of the admin, by title.
    _all: Mapping[str, ShownModel] = MappingProxyType({})

    def among(self, shown: Mapping[str, ShownModel]) -> None:
        """Apply the settings of base classes that the same admin shows."""
        object.__setattr__(self, "_all", shown)

    def _named(self, option: str, model: Any) -> set[str]:
        """Return the fields of a class that an option names, for the class or a base."""
        settings = [one for one in self._all.values() if one.model in model.__mro__]
        return {name for one in (self, *settings) for name in getattr(one, option)}

    def fixes(self, document: Any) -> bool:
        """Whether a document cannot be changed."""
        kinds = type(document).__mro__
        return self.is_fixed or any(one.is_fixed for one in self._all.values() if one.model in kinds)

    @property
    def title(self) -> str:
        """The model's name, which is also its part of the address."""
        return str(self.model.__name__)

    @property
    def is_fixed(self) -> bool:
        """Whether no document can be changed: `read_only` is set, or the model is a view."""
        return self.read_only or self.model.__view__ is not None

    def fields(self, model: Any = None) -> Iterator[tuple[str, Spec]]:
        """Yield the fields that are shown.

        Args:
            model: a subclass of the model, for a document of it.
        """
        model = model or self.model
        hidden = self._named("hidden", model)
        for name, spec in fields_of(model):
            if name not in hidden and not is_secret(model, name):
                yield name, spec

    def asked(self) -> Iterator[tuple[str, Spec]]:
        """Yield the fields by which a list may be sorted, searched and narrowed: those that every subclass shows."""
        kinds = [self.model]
        for kind in kinds:
            kinds += kind.__subclasses__()
        known = vars(self).get("_asked")
        # A subclass may be defined later.
        if known is None or known[0] != len(kinds):
            shown = [{name for name, spec in self.fields(kind) if not _is_sealed(spec)} for kind in kinds]
            told = set.intersection(*shown)
            known = len(kinds), [(name, spec) for name, spec in self.fields() if name in told]
            vars(self)["_asked"] = known
        yield from known[1]

    def edited(self, model: Any, *, is_new: bool) -> list[tuple[str, Spec]]:
        """Return the fields of a form: all shown ones that programs may set and that are not fixed for users."""
        left_out = {*fields_not_set(Input if is_new else Patch, model), *self._named("fixed", model)}
        if model.__tenant__ is not None and tenant_or_all(model) is not ALL:
            # A new document belongs to the tenant whose documents are shown, and keeps it.
            left_out.add(model.__tenant__)
        return [(name, spec) for name, spec in self.fields(model) if name not in left_out]

    def listed(self) -> list[tuple[str, Spec]]:
        """Return the columns of the list."""
        found = dict(self.fields())
        # The first column is the name already.
        left_out = ("id", self.naming(self.model) if self.label is None else None)
        simple = [name for name in found if name not in left_out and found[name]["op"] in SIMPLE]
        names = self.columns or simple[:COLUMNS]
        return [(name, found[name]) for name in names if name in found]

    def narrowing(self) -> list[tuple[str, Spec]]:
        """Return the fields of the filters."""
        found = dict(self.asked())
        names = self.filters or [name for name in found if found[name]["op"] in CHOSEN]
        return [(name, found[name]) for name in names if name in found]

    def searched(self) -> list[str]:
        """Return the fields in which a text is searched."""
        found = dict(self.asked())
        return [
            name
            for name in self.search or found
            if name in found and (self.search or found[name]["op"] == "str")
        ]

    def sorts(self, order: str) -> bool:
        """Return whether the list can be sorted by a field, with or without a minus."""
        spec = dict(self.asked()).get(order.removeprefix("-"))
        return spec is not None and spec["op"] in SIMPLE

    def name_of(self, document: Any) -> str:
        """Return the text of a link to a document."""
        if self.label is not None:
            return str(self.label(document))
        name = self.naming(type(document))
        text = None if name is None else getattr(document, name)
        return text if isinstance(text, str) and text.strip() else self.id_text(document.id)

    def naming(self, model: Any) -> str | None:
        """Return the field that names documents of a class: the first text."""
        return next((name for name, spec in self.fields(model) if spec["op"] == "str" and name != "id"), None)

    def id_text(self, id: Any) -> str:
        """Return an id as it is written in addresses."""
        return str(_id_leaf(self.model).write(id))

    def mark_of(self, id: Any) -> str:
        """Return a mark of a document's row that does not reveal its id."""
        key = connection(self.model.__connection__).clients.page_key
        text = f"admin row:{self.title}:{self.id_text(id)}".encode("utf-8", "surrogatepass")
        return hmac.digest(key, text, "sha256")[:16].hex()

    def id_of(self, text: str) -> Any:
        """Return the id that a text in an address stands for.

        Raises:
            ValueError: it is no id of this model.
        """
        return _id_leaf(self.model).read(text)


def served() -> list[Any]:
    """Return the document classes that a program has defined; of a family that shares a collection, its root."""
    found = [model for model in documents() if not model.__dict__.get("__abstract__")]
    return [model for model in found if not any(base.__dict__.get("__root__") for base in model.__mro__[1:])]


def _is_sealed(spec: Spec) -> bool:
    """Return whether values of a described type must not be shown."""
    leaf = leaf_of(spec)
    return leaf is not None and leaf.input == "secret"


def _id_leaf(model: Any) -> Any:
    spec = dict(fields_of(model))["id"]
    return leaf_of(spec) or leaf_of({**spec, "op": "any", "argument": None})
