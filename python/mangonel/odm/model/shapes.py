"""Result shapes other than models: dataclasses, `msgspec.Struct`s, `TypedDict`s, pydantic models, dicts.

A model is decoded by its plan. Other shapes are decoded as a hidden model with the same annotations, and then made from
its values.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from mangonel import _core
from mangonel.bson.codec_options import CodecOptions
from mangonel.odm._registry import is_model, registry
from mangonel.odm.model.base import Embedded
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.codec import conversions
from mangonel.odm.model.fields import FieldInfo
from mangonel.odm.model.metaclass import ModelMeta

Reader = Callable[[Any, list[Any], "int | None"], int]

# By shape, and whether dates have a time zone.
_twins: dict[tuple[Any, bool], Any] = {}
# The function that makes a shape, by its hidden model: building it takes longer than reading a batch.
_makers: dict[Any, Callable[[Any], Any]] = {}


def keys_of(shape: Any) -> list[str] | None:
    """Return the keys that a shape needs, or None for all."""
    if shape is dict:
        return None
    model = shape if is_model(shape) else twin(shape, True)
    return [field.key for field in model.__plan__.fields.values()]


def reader(shape: Any, tz_aware: bool, origin: Any = None) -> Reader:
    """Return the function that reads documents from a batch in this shape; `origin` is their connection."""
    if shape is dict:
        return lambda batch, documents, limit: int(batch.drain_into(documents, limit))
    if is_model(shape):
        model = shape.__model__
        ignores = not shape.__is_document__
        return lambda batch, documents, limit: _core.odm_drain(
            batch, model, documents, limit, False, None, ignores, origin
        )
    model = twin(shape, tz_aware)
    make = _maker(shape, model)

    def read(batch: Any, documents: list[Any], limit: int | None) -> int:
        found: list[Any] = []
        count = _core.odm_drain(batch, model.__model__, found, limit, False, None, True, origin)
        documents += map(make, found)
        return count

    return read


def decode(shape: Any, data: bytes, tz_aware: bool, origin: Any = None) -> Any:
    """Return one BSON document in a shape; `origin` is the connection that it comes from."""
    model = shape if is_model(shape) else twin(shape, tz_aware)
    found = _core.odm_decode_all(model.__model__, data, False, None, True, origin)[0]
    return found if is_model(shape) else _maker(shape, model)(found)


def core_shape(shape: Any, options: CodecOptions[Any]) -> _core.DocumentShape:
    """Return a shape for the driver's cursors, with the conversions of the collection's codec options."""
    asked = conversions(options)
    if is_model(shape):
        return _core.odm_shape(shape.__model__, None, not shape.__is_document__, asked)
    # The driver's own dates have no time zone.
    model = twin(shape, False)
    return _core.odm_shape(model.__model__, _maker(shape, model), True, asked)


def twin(shape: Any, tz_aware: bool) -> Any:
    """Return the hidden model with the annotations of another class.

    Raises:
        TypeError: the class is not a shape.
    """
    try:
        found = _twins.get((shape, tz_aware))
    except TypeError:
        # A shape that is a class can be a key, so this is no class.
        found = None
    if found is None:
        found = _make_twin(shape, tz_aware)
        _twins[shape, tz_aware] = found
    return found


def _make_twin(shape: Any, tz_aware: bool) -> Any:
    if not isinstance(shape, type):
        raise TypeError(f"expected a class as the shape of results, got {shape!r}")
    hints = typing.get_type_hints(shape, include_extras=True)
    namespace: dict[str, Any] = {"__module__": shape.__module__, "__qualname__": shape.__qualname__}
    annotations: dict[str, Any] = {}
    for name, annotation, key, default in _fields_of(shape, hints):
        own = _own_name(name)
        annotations[own] = _inner_twin(annotation, tz_aware)
        info = FieldInfo(**default)
        info.key = key if key is not None else "_id" if name == "id" else None if own == name else name
        namespace[own] = info
    namespace["__annotations__"] = annotations
    namespace["__unknown__"] = "ignore"
    namespace["__tz_aware__"] = tz_aware
    known = registry.get(shape.__name__)
    made = ModelMeta(shape.__name__, (Embedded,), namespace)
    if known is not None:
        registry[shape.__name__] = known
    return made


def _own_name(name: str) -> str:
    # A model has no fields whose names begin with an underscore.
    return f"own{name}" if name.startswith("_") else name


def _fields_of(
    shape: Any, hints: dict[str, Any]
) -> typing.Iterator[tuple[str, Any, str | None, dict[str, Any]]]:
    """Yield name, annotation, key in the database and default of each field."""
    if dataclasses.is_dataclass(shape):
        for item in dataclasses.fields(shape):
            if not item.init:
                continue
            default: dict[str, Any] = {}
            if item.default is not dataclasses.MISSING:
                default["default"] = item.default
            elif item.default_factory is not dataclasses.MISSING:
                default["default_factory"] = item.default_factory
            yield item.name, hints[item.name], item.metadata.get("key"), default
    elif hasattr(shape, "__struct_fields__"):
        import msgspec

        for field in msgspec.structs.fields(shape):
            default = {}
            if field.default is not msgspec.NODEFAULT:
                default["default"] = field.default
            elif field.default_factory is not msgspec.NODEFAULT:
                default["default_factory"] = field.default_factory
            key = field.encode_name if field.encode_name != field.name else None
            yield field.name, hints[field.name], key, default
    elif typing.is_typeddict(shape):
        for name, annotation in hints.items():
            optional = name not in shape.__required_keys__
            origin = typing.get_origin(annotation)
            if origin in (typing.Required, typing.NotRequired):
                annotation = typing.get_args(annotation)[0]
            yield name, (annotation | None if optional else annotation), name, {}
    elif hasattr(shape, "model_fields"):
        for name, field in shape.model_fields.items():
            default = {}
            if not field.is_required():
                default = {
                    "default_factory": lambda field=field: field.get_default(call_default_factory=True)
                }
            yield name, hints[name], field.alias, default
    else:
        raise TypeError(
            f"expected an Embedded, a dataclass, a msgspec.Struct, a TypedDict or a pydantic model, got {shape!r}"
        )


def _is_shape(plain: Any) -> bool:
    return isinstance(plain, type) and (
        dataclasses.is_dataclass(plain)
        or hasattr(plain, "__struct_fields__")
        or typing.is_typeddict(plain)
        or hasattr(plain, "model_fields")
    )


def _inner_twin(annotation: Any, tz_aware: bool) -> Any:
    """Return the annotation with its shapes replaced by their hidden models."""
    if _is_shape(annotation):
        return twin(annotation, tz_aware)
    arguments = typing.get_args(annotation)
    if not arguments or typing.get_origin(annotation) is typing.Literal:
        return annotation
    replaced = tuple(_inner_twin(argument, tz_aware) for argument in arguments)
    if replaced == arguments:
        return annotation
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return typing.Annotated[(replaced[0], *annotation.__metadata__)]
    if origin in (typing.Union, types.UnionType):
        return typing.Union[replaced]  # noqa: UP007  # built at run time
    return origin[replaced]


def _maker(shape: Any, model: Any) -> Callable[[Any], Any]:
    """Return the function that makes a shape from its hidden model's instance."""
    found = _makers.get(model)
    if found is None:
        found = _makers[model] = _make_maker(shape, model)
    return found


def _make_maker(shape: Any, model: Any) -> Callable[[Any], Any]:
    fields = model.__plan__.fields
    hints = typing.get_type_hints(shape, include_extras=True)
    shown = {_own_name(name): name for name, *_ in _fields_of(shape, hints)}
    names = [shown[own] for own in fields]
    inner = [number for number, field in enumerate(fields.values()) if field.model is not None]
    values_of = _values_of(model, list(fields))
    originals = {twin_model: original for (original, _), twin_model in _twins.items()}

    def convert(value: Any) -> Any:
        original = originals.get(type(value))
        if original is not None:
            return _maker(original, type(value))(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return type(value)(map(convert, value))
        if isinstance(value, dict):
            return {key: convert(item) for key, item in value.items()}
        return value

    def converted(instance: Any) -> Sequence[Any]:
        values = list(values_of(instance))
        for number in inner:
            values[number] = convert(values[number])
        return values

    values_in = converted if inner else values_of
    if typing.is_typeddict(shape):
        required: frozenset[str] = shape.__required_keys__
        return lambda instance: {
            name: value
            for name, value in zip(names, values_in(instance), strict=True)
            if value is not None or name in required
        }
    if not inner and (places := _places(shape, names)):
        return _core.OdmMaker(shape, places)
    if _takes_in_order(shape, names):
        return (lambda instance: shape(*converted(instance))) if inner else _core.OdmMaker(shape)
    build = getattr(shape, "model_construct", shape)
    return lambda instance: build(**dict(zip(names, values_in(instance), strict=True)))


def _values_of(model: Any, names: list[str]) -> Callable[[Any], Sequence[Any]]:
    """Return the function that reads all fields of a hidden model's instance; fetches no reference."""
    if len(names) > 1 and not model.__belongs_to__:
        return attrgetter(*names)
    return lambda instance: [held(instance, name) for name in names]


def _takes_in_order(shape: Any, names: list[str]) -> bool:
    """Return whether a class accepts its fields by position, which costs a third of passing them by name."""
    if hasattr(shape, "model_construct"):
        return False
    taken = inspect.signature(shape).parameters.values()
    return [each.name for each in taken if each.kind is each.POSITIONAL_OR_KEYWORD] == names


def _places(shape: Any, names: list[str]) -> list[Any] | None:
    """Return where a dataclass has its fields, if `__init__` does nothing but set them: members of slots, or names.

    None for a class that has to be called: it defines its own `__init__`, `__post_init__`, `__new__` or `__setattr__`,
    or a field that `__init__` does not accept.
    """
    if not hasattr(shape, "__dataclass_params__"):
        return None
    code = getattr(shape.__init__, "__code__", None)
    # The `__init__` that `dataclass` generates. That of a frozen class sets fields as `object` does, too.
    is_written = getattr(code, "co_qualname", "") == "__create_fn__.<locals>.__init__"
    sets_plainly = shape.__dataclass_params__.frozen or shape.__setattr__ is object.__setattr__
    is_made_plainly = shape.__new__ is object.__new__ and type(shape).__call__ is type.__call__
    if not is_written or not sets_plainly or not is_made_plainly or hasattr(shape, "__post_init__"):
        return None
    fields = [field.name for field in dataclasses.fields(shape)]
    if sorted(fields) != sorted(names) or inspect.signature(shape).parameters.keys() != set(names):
        return None
    members = [inspect.getattr_static(shape, name, None) for name in names]
    return [
        member if inspect.ismemberdescriptor(member) else name
        for name, member in zip(names, members, strict=True)
    ]
