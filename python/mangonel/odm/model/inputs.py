"""`Input[Model]` and `Patch[Model]`: pydantic models of a request's body, made from a model's fields.

pydantic is imported when the first one is made. The classes are real pydantic models, so FastAPI takes them as bodies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from mangonel._arguments import expect
from mangonel.odm._registry import is_model
from mangonel.odm.model.specs import default_of, spec_of

T = TypeVar("T")

# Classes made so far, by base, model and names.
_made: dict[Any, Any] = {}


class _Request(Generic[T]):
    """The common base of `Input` and `Patch`."""

    if TYPE_CHECKING:
        # `request_model` sets the first, pydantic the others.
        __document__: type[T]
        model_fields: ClassVar[dict[str, Any]]
        model_fields_set: set[str]
    else:

        def __class_getitem__(cls, model: Any) -> Any:
            # The signature of a generic function has a type variable here: no class is made for it.
            return request_model(cls, model) if is_model(model) else super().__class_getitem__(model)


class Input(_Request[T]):
    """The body of a request that creates a document: `Input[User]` is a pydantic model with the fields of `User`.

    Left out are the fields that programs do not set: an id with a default, versions, sequences, and times set by saves.
    Name further ones in the model, as `__input_exclude__ = ("role",)`.

    Example:
        >>> Input[User].model_validate({"name": "Max", "age": 3}).make().age
        3
    """

    def make(self, **values: Any) -> T:
        """Return a new document with the values of the request.

        Args:
            values: further values by attribute, which replace those of the request.

        Raises:
            ValidationError: a value does not fit its field.

        Example:
            >>> Input[User].model_validate({"name": "Max"}).make(age=3)
            User(id=ObjectId('...'), name='Max', age=3, ...)
        """
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return self.__document__(**{**given, **values})


class Patch(_Request[T]):
    """The body of a request that changes a document: `Patch[User]` has the fields of `User`, none of them required.

    Left out are those that `Input` leaves out, the id and frozen fields.

    Example:
        >>> patch = Patch[User].model_validate({"age": 40})
        >>> patch.apply(user).age, user.name
        (40, 'Ada')
    """

    def apply(self, document: T) -> T:
        """Set the attributes that the request names, and return the document; `save()` stores them.

        An embedded document is replaced as a whole.

        Args:
            document: a document of the model.

        Raises:
            ValidationError: a value does not fit its field. Attributes before it are set.

        Example:
            >>> Patch[User].model_validate({"age": 40}).apply(user).save().age
            40
        """
        if not isinstance(document, self.__document__):
            wanted = self.__document__.__name__
            raise TypeError(f"expected a {wanted} to change, got {type(document).__name__}")
        for name in type(self).model_fields:
            if name in self.model_fields_set:
                setattr(document, name, getattr(self, name))
        return document


def request_model(
    base: Any, model: Any, *, only: Iterable[str] | None = None, exclude: Iterable[str] = ()
) -> Any:
    """Return the pydantic model of a request's body.

    Args:
        base: `Input` or `Patch`.
        model: a document class, or a class of embedded documents.
        only: the attributes that it has. None: all but those that programs do not set.
        exclude: attributes to leave out in addition.

    Raises:
        AttributeError: a name has no field.
    """
    for argument, given in (("only", () if only is None else only), ("exclude", exclude)):
        expect(argument, given, Iterable, "names of fields")
    fields = model.__plan__.fields
    names = tuple(only) if only is not None else tuple(fields)
    excluded = {*exclude, *(fields_not_set(base, model) if only is None else ())}
    for name in (*names, *exclude):
        if name not in fields:
            raise AttributeError(f"{model.__name__} has no field {name!r}; it has {', '.join(fields)}")
    chosen = tuple(name for name in names if name not in excluded)
    key = (base, model, chosen)
    if key not in _made:
        _made[key] = _make(base, model, chosen)
    return _made[key]


def fields_not_set(base: Any, model: Any) -> set[str]:
    """Return the fields of a model that no request or form may set.

    Args:
        base: `Input` for a new document, `Patch` for an existing one.
        model: a document class, or a class of embedded documents.
    """
    found: set[str] = {*model.__input_exclude__}
    stamped = {key for key, _ in model.__stamps__()} if model.__is_document__ else set()
    for name, field in model.__plan__.fields.items():
        info = field.info
        is_patch = issubclass(base, Patch)
        is_kept = is_patch and (info.frozen or name in getattr(model, "__shard_key__", ()))
        is_id = field.key == "_id" and model.__is_document__ and (is_patch or not field.is_required)
        is_counted = field.is_version or field.sequence is not None
        is_mark = name == "deleted_at" and model.__is_document__ and model.__soft_delete__()
        if is_kept or is_id or is_counted or is_mark or field.key in stamped:
            found.add(name)
    return found


class _Of:
    """Gives pydantic the schema of a field, through pydantic's hook for annotations."""

    __slots__ = ("spec",)

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        from mangonel.odm.model.pydantic_schema import Core

        return Core(core_schema, handler).of(self.spec)


def _make(base: Any, model: Any, names: tuple[str, ...]) -> Any:
    import typing

    import pydantic

    is_patch = issubclass(base, Patch)
    given: dict[str, Any] = {}
    for name in names:
        field = model.__plan__.fields[name]
        spec = spec_of(field.type, field.metadata, field.nullable, model, field.info)
        kind, value = default_of(field, spec)
        options: dict[str, Any] = {}
        if not is_patch and kind == "value" and isinstance(value, (str, int, float, type(None))):
            options["default"] = value
        elif is_patch or kind != "required":
            # The model makes its own default with the document.
            options["default_factory"] = lambda: None
        if field.key != name:
            options["validation_alias"] = pydantic.AliasChoices(name, field.key)
        given[name] = (typing.Annotated[typing.Any, _Of(spec)], pydantic.Field(**options))
    made: Any = pydantic.create_model(
        f"{model.__name__}{base.__name__}",
        __config__=pydantic.ConfigDict(extra="forbid" if model.__unknown__ == "forbid" else "ignore"),
        __module__=model.__module__,
        **given,
    )
    made.__document__ = model
    for method in ("make", "apply"):
        if hasattr(base, method):
            setattr(made, method, getattr(base, method))
    return made
