"""The common base of documents and embedded documents: conversion from and to dicts and BSON.

Rust implements instances (`_core.OdmBase`); `store.document` implements their operations on a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from mangonel import _core
from mangonel._arguments import expect
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.odm.expressions.paths import Path
from mangonel.odm.model import convert
from mangonel.odm.model.fields import FieldInfo
from mangonel.odm.model.hooks import Hook, load_hook, run_plain
from mangonel.odm.model.inputs import Input, Patch, request_model
from mangonel.odm.model.metaclass import ModelMeta
from mangonel.odm.model.plan import Plan
from mangonel.odm.model.pydantic_schema import core_schema, pydantic_json_schema


class Base(_core.OdmBase, metaclass=ModelMeta):
    """The common base of documents and embedded documents."""

    __abstract__ = True

    # Class attributes that a program may set.
    __unknown__: ClassVar[str] = "keep"
    __on_bad__: ClassVar[str] = "raise"
    __cast__: ClassVar[Any] = False
    __tz_aware__: ClassVar[bool] = True
    __dynamic__: ClassVar[bool] = False
    __root__: ClassVar[bool] = False
    __tag__: ClassVar[str] = "_cls"
    __tag_value__: ClassVar[Any] = None
    __tag_root__: ClassVar[bool] = False
    __computed__: ClassVar[tuple[str, ...]] = ()
    __input_exclude__: ClassVar[tuple[str, ...]] = ()

    # Class attributes that the metaclass sets.
    __model__: ClassVar[_core.OdmModel]
    __fields__: ClassVar[dict[str, FieldInfo]]
    __plan__: ClassVar[Plan]
    __locals__: ClassVar[dict[str, Any]]
    __expressions__: ClassVar[dict[str, Path[Any]]]
    __hooks__: ClassVar[dict[str, list[Hook]]]
    __is_document__: ClassVar[bool] = False
    __belongs_to__: ClassVar[dict[str, Any]] = {}
    __inverses__: ClassVar[dict[str, Any]] = {}

    @classmethod
    def __default_tag__(cls) -> Any:
        return cls.__name__

    @classmethod
    def __collection_name__(cls) -> str:
        return cls.__name__

    @classmethod
    def __tagged__(cls) -> list[Any]:
        """The tagged models that may take the place of this one, including itself."""
        found: list[Any] = [cls] if cls.__tag_value__ is not None else []
        for child in cls.__subclasses__():
            # The hidden class of partial loads is a subclass too.
            if "__model__" in child.__dict__ or "__abstract__" in child.__dict__:
                found += [model for model in child.__tagged__() if model not in found]
        return [model for model in found if "__model__" in model.__dict__] if found else found

    @classmethod
    def __load_hook__(cls) -> Callable[[Any], None] | None:
        return load_hook(cls)

    @classmethod
    def from_bson(cls, data: bytes, *, lazy: bool = False) -> Self:
        """Decode one BSON document into an instance.

        Args:
            data: one document.
            lazy: leave containers undecoded until they are read.

        Raises:
            ValidationError: a value does not fit its field, or is missing; the message has the path.
            InvalidBSON: the bytes are not BSON.

        Example:
            >>> User.from_bson(bson.encode({"name": "Ada"})).name
            'Ada'
        """
        expect("data", data, bytes, "bytes")
        found = _core.odm_decode_all(cls.__model__, data, lazy)
        if len(found) != 1:
            raise ValueError(f"expected one document, got {len(found)}")
        return found[0]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make an instance from a mapping of attributes or keys, with embedded documents. Types are checked.

        Unknown keys are kept as `extra` and stored; `__unknown__ = "ignore"` drops them. For untrusted input use
        that, or "forbid".

        Args:
            values: by attribute or by key.

        Raises:
            ValidationError: a value does not fit its field, or is missing; or a tag names no class of the family.
            TypeError: a key has no field, and `__unknown__` is "forbid".

        Example:
            >>> User.from_dict({"name": "Ada", "address": {"city": "London"}}).address.city
            'London'
        """
        return convert.from_dict(cls, values)

    def to_bson(self) -> Any:
        """Encode the document as raw BSON, which the driver accepts."""
        return RawBSONDocument(_core.odm_encode(self))

    def to_dict(
        self, *, exclude: Any = (), only: Any = None, by_key: bool = False, include: Any = (), also: Any = ()
    ) -> dict[str, Any]:
        """Return the values as a dict, with embedded documents; references become ids.

        A class of a family includes its tag, such as `_cls`, from which `from_dict` restores the class.

        Args:
            exclude: attributes to leave out; use "address.zip" for those of embedded documents.
            only: the attributes to include. None: all.
            by_key: use the keys of the database.
            include: references to replace by their documents, which must have been fetched.
            also: properties, and methods without arguments, whose values to add.

        Raises:
            AttributeError: a name has no field.
            DocumentNotFound: a reference in `include` was not fetched.
            TypeError: a name in `include` is not a reference.

        Example:
            >>> user.to_dict(only=["name", "age"])
            {'name': 'Ada', 'age': 36}
        """
        return convert.to_dict(self, exclude=exclude, only=only, by_key=by_key, include=include, also=also)

    def to_json(
        self, *, exclude: Any = (), only: Any = None, by_key: bool = False, include: Any = (), also: Any = ()
    ) -> str:
        """Return the values as JSON: ids, dates and decimals as strings.

        Args:
            exclude, only, by_key, include, also: as for `to_dict`.

        Example:
            >>> user.to_json(only=["name", "age"])
            '{"name": "Ada", "age": 36}'
        """
        return convert.to_json(self, exclude=exclude, only=only, by_key=by_key, include=include, also=also)

    @classmethod
    def input_model(
        cls, *, only: Iterable[str] | None = None, exclude: Iterable[str] = ()
    ) -> type[Input[Self]]:
        """Return `Input[cls]` with other fields: a pydantic model for the body of a request that creates a document.

        Args:
            only: the attributes that it has. None: those of `Input[cls]`.
            exclude: attributes to leave out in addition.

        Raises:
            AttributeError: a name has no field.

        Example:
            >>> list(User.input_model(only=["name", "age"]).model_fields)
            ['name', 'age']
        """
        return request_model(Input, cls, only=only, exclude=exclude)

    @classmethod
    def patch_model(
        cls, *, only: Iterable[str] | None = None, exclude: Iterable[str] = ()
    ) -> type[Patch[Self]]:
        """Return `Patch[cls]` with other fields: a pydantic model for the body of a request that changes a document.

        Args:
            only: the attributes that it has. None: those of `Patch[cls]`.
            exclude: attributes to leave out in addition.

        Raises:
            AttributeError: a name has no field.

        Example:
            >>> User.patch_model(only=["age"]).model_validate({"age": 40, "name": "x"}).apply(user).name
            'Ada'
        """
        return request_model(Patch, cls, only=only, exclude=exclude)

    @property
    def extra(self) -> Any:
        """A dict of the keys and values that no field covers, as a copy; `set_extra` changes them.

        A model may have a field of this name, which then takes its place, unless the model is dynamic.
        """
        return _core.odm_extra(self)

    def set_extra(self, values: Mapping[str, Any]) -> None:
        """Replace the keys and values that no field covers.

        Args:
            values: by key; they replace all existing ones.

        Example:
            >>> user.set_extra({"legacy": 1})
            >>> user.extra
            {'legacy': 1}
        """
        _core.odm_set_extra(self, dict(expect("values", values, Mapping, "a mapping")))

    def validate(self) -> None:
        """Check every value, also inside containers, and run the `validate` hooks.

        Raises:
            ValidationError: the message has the path of the first wrong value.
        """
        run_plain(self, "before_validate")
        _core.odm_encode(self)
        run_plain(self, "after_validate")

    def copy(self, **changes: Any) -> Self:
        """Return a copy with a new id and with these changes.

        Args:
            changes: values by attribute.

        Example:
            >>> twin = user.copy(name="Ada II")
            >>> twin.name, twin.id == user.id
            ('Ada II', False)
        """
        return convert.copy(self, changes)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) and getattr(other, "__class__", None) is not self.__class__:
            return NotImplemented
        return convert.values_of(self) == convert.values_of(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return convert.represent(self)

    def __reduce__(self) -> Any:
        return convert.reduce(self)

    def __copy__(self) -> Self:
        restore, arguments = convert.reduce(self)
        made: Self = restore(*arguments)
        origin = _core.odm_origin(self)
        if origin is not None:
            _core.odm_set_origin(made, origin)
        return made

    def __deepcopy__(self, memo: Any) -> Self:
        return self.__copy__()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema(cls, handler)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        return pydantic_json_schema(cls, schema, handler)


class Embedded(Base):
    """A document embedded in others; also a shape for reading part of a document.

    Example:
        >>> class Address(Embedded):
        ...     city: str
        ...     zip: str | None = None
        >>> Address(city="Oslo").city
        'Oslo'
    """

    __abstract__ = True
