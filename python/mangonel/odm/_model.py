"""Models: the metaclass that makes slots of annotations, and the bases `Document` and `Embedded`.

What an instance is lives in Rust (`_core.OdmBase`); what it does with a server, in `_documents`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, dataclass_transform

from mangonel import _core
from mangonel.bson import ObjectId
from mangonel.odm._fields import MISSING, FieldInfo, Inverse, field, many
from mangonel.odm._hooks import Hook, collect_hooks, load_hook
from mangonel.odm._paths import Path

# Models by name, for forward references across modules; the last one of a name wins.
registry: dict[str, Any] = {}

_OWN = frozenset(
    {"__model__", "__members__", "__fields__", "__own_fields__", "__resolved__", "__expressions__"}
)


@dataclass_transform(kw_only_default=True, field_specifiers=(field, many))
class ModelMeta(_core.OdmMeta):
    """Makes slots of annotations. A field read from the class is an expression: `User.age > 3`."""

    def __new__(
        meta, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, is_hidden: bool = False
    ) -> Any:
        if is_hidden:
            return super().__new__(meta, name, bases, namespace)
        annotations = _annotations(namespace)
        own: dict[str, FieldInfo] = {}
        inverses: dict[str, Inverse] = {}
        private: list[str] = []
        for attribute, annotation in annotations.items():
            if attribute.startswith("__") or _is_class_variable(annotation):
                continue
            default = namespace.get(attribute, MISSING)
            if isinstance(default, Inverse):
                inverses[attribute] = default
                continue
            if attribute.startswith("_"):
                private.append(attribute)
                namespace.pop(attribute, None)
                continue
            namespace.pop(attribute, None)
            info = default if isinstance(default, FieldInfo) else FieldInfo(default)
            own[attribute] = FieldInfo(
                info.default,
                info.default_factory,
                info.key,
                info.lazy,
                info.frozen,
                info.on_delete,
                name=attribute,
                annotation=annotation,
            )
        for attribute in own:
            if any(isinstance(base, ModelMeta) and attribute in _methods(base) for base in bases):
                raise TypeError(
                    f"cannot call a field {attribute!r} in {name}: the mapper has a method of that name"
                )
        is_abstract = bool(namespace.setdefault("__abstract__", False))
        fields = _inherited(bases)
        fields.update(own)
        has_slot = {slot for base in bases for slot in getattr(base, "__all_members__", ())}
        slots = [] if is_abstract else [attribute for attribute in fields if attribute not in has_slot]
        if not is_abstract:
            slots += private
            is_first = not any(getattr(base, "__weakrefoffset__", 0) for base in bases)
            if is_first and any(getattr(base, "__is_document__", False) for base in bases):
                slots.append("__weakref__")
        namespace["__slots__"] = tuple(slots)
        namespace["__own_fields__"] = own
        cls: Any = super().__new__(meta, name, bases, namespace)
        for info in own.values():
            info.owner = cls
        for attribute, inverse in inverses.items():
            inverse.name, inverse.owner, inverse.annotation = attribute, cls, annotations[attribute]
            _install_inverse(cls, attribute, inverse)
        # Nobody but the class's own frame has the names of a function's scope.
        cls.__locals__ = {}
        if any(isinstance(annotation, str) for annotation in annotations.values()):
            cls.__locals__ = _caller_locals(cls, annotations)
        cls.__all_members__ = frozenset(has_slot.union(slots))
        cls.__members__ = {slot: cls.__dict__[slot] for slot in slots if slot != "__weakref__"}
        cls.__fields__ = _ordered(fields, cls)
        cls.__expressions__ = {attribute: Path(cls, attribute) for attribute in cls.__fields__}
        cls.__hooks__ = collect_hooks(cls)
        if not is_abstract:
            cls.__model__ = _core.OdmModel(cls)
            _adopt(cls)
            registry[name] = cls
            _join_family(cls)
        return cls

    def __init__(
        cls,  # noqa: N805
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        is_hidden: bool = False,
    ) -> None:
        super().__init__(name, bases, namespace)

    def __setattr__(cls, name: str, value: Any) -> None:  # noqa: N805  # the class
        if name in cls.__dict__.get("__fields__", ()) and name not in _OWN:
            raise AttributeError(f"cannot replace the field {name!r} of {cls.__name__}")
        super().__setattr__(name, value)


def _adopt(cls: Any) -> None:
    members = {
        slot: member for base in cls.__mro__ for slot, member in base.__dict__.get("__members__", {}).items()
    }
    cls.__model__.adopt(cls, [_core.odm_offset(member) for member in members.values()])


def _annotations(namespace: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] | None = namespace.get("__annotations__")
    if found is None and sys.version_info >= (3, 14):
        import annotationlib  # type: ignore[import-not-found,unused-ignore]

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is not None:
            found = annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)
    return dict(found or {})


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.startswith(("ClassVar", "typing.ClassVar", "t.ClassVar"))
    return annotation is ClassVar or getattr(annotation, "__origin__", None) is ClassVar


def _methods(base: Any) -> set[str]:
    """Names that a field must not take: what the mapper's own bases define."""
    return {
        name
        for parent in base.__mro__
        if parent.__module__.startswith("mangonel.odm.") and isinstance(parent, ModelMeta)
        for name, value in vars(parent).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, (classmethod, property)))
    }


def _inherited(bases: tuple[type, ...]) -> dict[str, FieldInfo]:
    fields: dict[str, FieldInfo] = {}
    seen: list[Any] = []
    for base in bases:
        for parent in base.__mro__:
            if parent not in seen:
                seen.append(parent)
    # From the far ancestors to the near ones, so that a redefinition wins and keeps its place.
    for parent in sorted(seen, key=lambda parent: len(parent.__mro__)):
        fields.update(parent.__dict__.get("__own_fields__", {}))
    return fields


def _ordered(fields: dict[str, FieldInfo], cls: Any) -> dict[str, FieldInfo]:
    """The id first; another field that is the id takes the place of the inherited one."""
    primary = next((name for name, info in fields.items() if info.key == "_id" and name != "id"), None)
    if primary is not None and "id" in fields and fields["id"].owner is not cls:
        fields.pop("id")
        if "id" in cls.__dict__:
            type.__setattr__(cls, "id", property(lambda self: getattr(self, primary)))
    first = primary or "id"
    names = ([first] if first in fields else []) + [name for name in fields if name != first]
    return {name: fields[name] for name in names}


def _caller_locals(cls: Any, annotations: dict[str, Any]) -> dict[str, Any]:
    """What annotations name of the function that a model is defined in, if any; nothing else is kept."""
    if "<locals>" not in cls.__qualname__:
        return {}
    frame = sys._getframe(2)
    if frame.f_code.co_name == "<module>":
        return {}
    named = set(re.findall(r"[^\W\d]\w*", " ".join(map(str, annotations.values()))))
    return {name: value for name, value in frame.f_locals.items() if name in named}


def _install_inverse(cls: Any, name: str, inverse: Inverse) -> None:
    from mangonel.odm._refs import InverseDescriptor

    type.__setattr__(cls, name, InverseDescriptor(inverse))


def _join_family(cls: Any) -> None:
    """Give a member of a family its tag, and tell the family of it."""
    root = None
    for parent in reversed(cls.__mro__):
        if parent.__dict__.get("__root__") and not parent.__dict__.get("__abstract__"):
            root = parent
            break
    if root is None:
        # Beneath a model that is no root: a collection of its own.
        return
    if "__tag_value__" not in cls.__dict__:
        cls.__tag_value__ = cls.__default_tag__() if cls is not root or root.__tag_root__ else None
    if cls is not root and "__collection__" not in cls.__dict__:
        cls.__collection__ = root.__collection_name__()
    ancestors: tuple[Any, ...] = cls.__mro__[1:]
    for parent in ancestors:
        if "__model__" in parent.__dict__:
            parent.__model__.reset()


def make_partial_class(cls: Any) -> None:
    """Make the hidden class of partly loaded instances: reading what was left out says so."""

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        if name in cls.__fields__:
            from mangonel.odm.errors import NotLoaded

            raise NotLoaded(
                f"{cls.__name__}.{name} was not loaded; name it in only(), or reload the document"
            )
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")

    namespace = {
        "__slots__": (),
        "__getattr__": __getattr__,
        "__class__": property(lambda self: cls),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    hidden = ModelMeta(cls.__name__, (cls,), namespace, is_hidden=True)
    type.__setattr__(cls, "__partial__", hidden)
    cls.__model__.set_partial(hidden)


class Base(_core.OdmBase, metaclass=ModelMeta):
    """What documents and embedded documents have in common."""

    __abstract__ = True

    # What a program may set in the class.
    __unknown__: ClassVar[str] = "keep"
    __on_bad__: ClassVar[str] = "raise"
    __cast__: ClassVar[bool] = False
    __tz_aware__: ClassVar[bool] = False
    __dynamic__: ClassVar[bool] = False
    __root__: ClassVar[bool] = False
    __tag__: ClassVar[str] = "_cls"
    __tag_value__: ClassVar[Any] = None
    __tag_root__: ClassVar[bool] = False

    # What the metaclass sets.
    __model__: ClassVar[_core.OdmModel]
    __fields__: ClassVar[dict[str, FieldInfo]]
    __resolved__: ClassVar[dict[str, Any]]
    __locals__: ClassVar[dict[str, Any]]
    __expressions__: ClassVar[dict[str, Path[Any]]]
    __hooks__: ClassVar[dict[str, list[Hook]]]
    __is_document__: ClassVar[bool] = False

    @classmethod
    def __default_tag__(cls) -> Any:
        return cls.__name__

    @classmethod
    def __collection_name__(cls) -> str:
        return cls.__name__

    @classmethod
    def __tagged__(cls) -> list[Any]:
        """The models that may stand where this one is expected, itself included, that have tags."""
        found = [cls] if cls.__tag_value__ is not None else []
        for child in cls.__subclasses__():
            # The hidden class of partial loads is a subclass too.
            if "__model__" in child.__dict__ or "__abstract__" in child.__dict__:
                found += [model for model in child.__tagged__() if model not in found]
        return [model for model in found if "__model__" in model.__dict__]

    @classmethod
    def __load_hook__(cls) -> Callable[[Any], None] | None:
        return load_hook(cls)

    @classmethod
    def from_bson(cls, data: bytes, *, lazy: bool = False) -> Self:
        """Return the instance that one BSON document is.

        Args:
            data: one document.
            lazy: leave containers raw until they are read.

        Raises:
            ValidationError: a value is not what its field says, or is missing; the message has the path.
            InvalidBSON: the bytes are not BSON.

        Example:
            >>> User.from_bson(bson.encode({"name": "Ada"})).name
            'Ada'
        """
        found = _core.odm_decode_all(cls.__model__, data, lazy)
        if len(found) != 1:
            raise ValueError(f"expected one document, found {len(found)}")
        made: Self = found[0]
        return made

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make an instance of a mapping of attributes or keys, embedded documents included; types are checked.

        Args:
            values: by attribute or by key.

        Raises:
            ValidationError: a value is not what its field says, or is missing.

        Example:
            >>> User.from_dict({"name": "Ada", "address": {"city": "London"}}).address.city
            'London'
        """
        from mangonel.odm._convert import from_dict

        made: Self = from_dict(cls, values)
        return made

    def to_bson(self) -> Any:
        """Return the document as the driver takes it: raw BSON."""
        from mangonel.bson.raw_bson import RawBSONDocument

        return RawBSONDocument(_core.odm_encode(self))

    def to_dict(self, *, exclude: Any = (), only: Any = None, by_key: bool = False) -> dict[str, Any]:
        """Return the values as a dict, embedded documents included; references become ids.

        Args:
            exclude: attributes to leave out.
            only: the attributes to take; None for all.
            by_key: name them as the database does.

        Example:
            >>> user.to_dict(only=["name", "age"])
            {'name': 'Ada', 'age': 36}
        """
        from mangonel.odm._convert import to_dict

        return to_dict(self, exclude=exclude, only=only, by_key=by_key)

    def to_json(self, *, exclude: Any = (), only: Any = None, by_key: bool = False) -> str:
        """Return the values as JSON: ids, dates and decimals as strings.

        Args:
            exclude, only, by_key: as for `to_dict`.

        Example:
            >>> user.to_json(only=["name", "age"])
            '{"name": "Ada", "age": 36}'
        """
        from mangonel.odm._convert import to_json

        return to_json(self, exclude=exclude, only=only, by_key=by_key)

    @property
    def extra(self) -> dict[str, Any]:
        """What the stored document has under keys that no field has. A copy; `set_extra` changes it."""
        found: dict[str, Any] = _core.odm_extra(self)
        return found

    def set_extra(self, values: Mapping[str, Any]) -> None:
        """Set what stands under keys that no field has.

        Args:
            values: by key; takes the place of all that stood there.

        Example:
            >>> user.set_extra({"legacy": 1})
            >>> user.extra
            {'legacy': 1}
        """
        _core.odm_set_extra(self, dict(values))

    def validate(self) -> None:
        """Check every value and what stands in containers; run the `validate` hooks.

        Raises:
            ValidationError: with the path of the first value that is wrong.
        """
        from mangonel.odm._hooks import run_plain

        run_plain(self, "before_validate")
        _core.odm_encode(self)
        run_plain(self, "after_validate")

    def copy(self, **changes: Any) -> Self:
        """Return a new document with the same values but another id, and with these changes.

        Args:
            changes: values by attribute.

        Example:
            >>> twin = user.copy(name="Ada II")
            >>> twin.name, twin.id == user.id
            ('Ada II', False)
        """
        from mangonel.odm._convert import copy

        made: Self = copy(self, changes)
        return made

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) and getattr(other, "__class__", None) is not self.__class__:
            return NotImplemented
        from mangonel.odm._convert import values_of

        return values_of(self) == values_of(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        from mangonel.odm._convert import represent

        return represent(self)

    def __reduce__(self) -> Any:
        from mangonel.odm._convert import reduce

        return reduce(self)

    def __copy__(self) -> Self:
        from mangonel.odm._convert import reduce

        restore, arguments = reduce(self)
        made: Self = restore(*arguments)
        return made

    def __deepcopy__(self, memo: Any) -> Self:
        return self.__copy__()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from mangonel.odm._pydantic import core_schema

        return core_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        from mangonel.odm._pydantic import pydantic_json_schema

        return pydantic_json_schema(cls, handler)


class Embedded(Base):
    """A document inside documents; also the shape of a read model.

    Example:
        >>> class Address(Embedded):
        ...     city: str
        ...     zip: str | None = None
        >>> Address(city="Oslo").city
        'Oslo'
    """

    __abstract__ = True


def is_model(plain: Any) -> bool:
    """Whether something is a model class, a document's or an embedded one's."""
    return isinstance(plain, ModelMeta)


def is_embedded(plain: Any) -> bool:
    """Whether something is the class of an embedded document."""
    found: Any = plain
    return isinstance(plain, ModelMeta) and not found.__is_document__


def is_embedded_instance(value: Any) -> bool:
    """Whether a value is an embedded document."""
    return isinstance(value, Embedded)


def is_document(value: Any) -> bool:
    """Whether a value is a document."""
    return isinstance(value, Base) and type(value).__is_document__


__all__ = ["Base", "Embedded", "ModelMeta", "ObjectId", "is_document", "is_embedded", "is_model", "registry"]
