"""The metaclass that turns annotations into slots, and gives each model its plan."""

from __future__ import annotations

import copy
import re
import sys
from typing import Any, dataclass_transform

from mangonel import _core
from mangonel.odm._registry import keepers, models, registry
from mangonel.odm.errors import NotLoaded
from mangonel.odm.expressions.paths import Path
from mangonel.odm.model.cast import check_cast
from mangonel.odm.model.class_body import check_extra, check_keys, read_body
from mangonel.odm.model.embedded_in import embedded_in
from mangonel.odm.model.fields import FieldInfo, Inverse, field, many, mapped
from mangonel.odm.model.hooks import collect_hooks, forget_plans
from mangonel.odm.model.many import InverseDescriptor
from mangonel.odm.model.plan import UnreadPlan
from mangonel.odm.model.scopes import inherit_scopes
from mangonel.odm.model.spelling import check_index_texts, check_keywords
from mangonel.odm.model.tenancy import check_tenant

# Class attributes of models and their bases that plans cache.
_PLANNED = {"__connection__", "__default_scope__", "__tag_value__", "__tenant__"}


@dataclass_transform(kw_only_default=True, field_specifiers=(field, mapped, many, embedded_in))
class ModelMeta(_core.OdmMeta):
    """Turns annotations into slots. A field read from the class is an expression: `User.age > 3`."""

    def __new__(
        meta,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        is_hidden: bool = False,
        **options: Any,
    ) -> Any:
        if is_hidden:
            return super().__new__(meta, name, bases, namespace)
        check_keywords(name, bases, options)
        body = read_body(name, bases, namespace)
        check_index_texts(name, body.annotations)
        is_abstract = bool(namespace.setdefault("__abstract__", False))
        fields = _inherited(bases) | body.fields
        check_extra(name, bases, namespace, fields)
        has_slot = {slot for base in bases for slot in getattr(base, "__all_members__", ())}
        slots = [] if is_abstract else _slots(bases, [*fields], body.private, has_slot)
        namespace["__slots__"] = tuple(slots)
        namespace["__own_private__"] = tuple(body.private)
        namespace["__private_defaults__"] = body.defaults
        if body.defaults and "__getattr__" not in namespace:
            namespace["__getattr__"] = private_default
        namespace["__own_fields__"] = body.fields
        cls: Any = super().__new__(meta, name, bases, namespace)
        for info in body.fields.values():
            info.owner = cls
        inherited: dict[str, Any] = {}
        for base in reversed(bases):
            inherited |= getattr(base, "__inverses__", {})
        cls.__inverses__ = inherited
        for attribute, inverse in body.inverses.items():
            inverse.name, inverse.owner, inverse.annotation = attribute, cls, body.annotations[attribute]
            _install_inverse(cls, attribute, inverse)
        # Only the function's frame knows the names in its scope.
        cls.__locals__ = {}
        if any(isinstance(annotation, str) for annotation in body.annotations.values()):
            cls.__locals__ = _caller_locals(cls, body.annotations)
        cls.__all_members__ = frozenset(has_slot.union(slots))
        cls.__members__ = {slot: cls.__dict__[slot] for slot in slots if slot != "__weakref__"}
        cls.__fields__ = _ordered(fields, cls)
        check_keys(name, cls.__fields__)
        cls.__expressions__ = {attribute: Path(cls, attribute) for attribute in cls.__fields__}
        cls.__hooks__ = collect_hooks(cls)
        cls.__plan__ = UnreadPlan(cls, make_partial_class)
        inherit_scopes(cls, namespace)
        if cls.__is_document__ and not is_abstract:
            check_tenant(cls)
        if cls.__cast__:
            check_cast(cls)
        if not is_abstract:
            cls.__model__ = _core.OdmModel(cls)
            _adopt(cls)
            registry[name] = cls
            models.append(cls)
            _join_family(cls)
            # Its collection may be cached already.
            for keeper in list(keepers):
                keeper.forget()
            if cls.__hooks__ and not cls.__is_document__:
                # Documents saved earlier may hold it in place of its base.
                forget_plans()
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
        if name in cls.__dict__.get("__fields__", ()):
            raise AttributeError(f"cannot replace the field {name!r} of {cls.__name__}")
        super().__setattr__(name, value)
        if name in _PLANNED:
            forget_plans()

    def __delattr__(cls, name: str) -> None:  # noqa: N805  # the class
        super().__delattr__(name)
        if name in _PLANNED:
            forget_plans()


def _adopt(cls: Any) -> None:
    members = {
        slot: member for base in cls.__mro__ for slot, member in base.__dict__.get("__members__", {}).items()
    }
    _core.odm_adopt(cls.__model__, cls, [_core.odm_offset(member) for member in members.values()])


def _inherited(bases: tuple[type, ...]) -> dict[str, FieldInfo]:
    fields: dict[str, FieldInfo] = {}
    seen: list[Any] = []
    for base in bases:
        for parent in base.__mro__:
            if parent not in seen:
                seen.append(parent)
    # From distant ancestors to near ones, so that a redefinition wins and keeps its position.
    for parent in sorted(seen, key=lambda parent: len(parent.__mro__)):
        fields.update(parent.__dict__.get("__own_fields__", {}))
    return fields


def _slots(bases: tuple[type, ...], fields: list[str], private: list[str], has_slot: set[str]) -> list[str]:
    """Return the names of the slots that a model adds to those of its bases."""
    # An abstract base has no slots: its private attributes get theirs here.
    parents = [parent for base in bases for parent in base.__mro__]
    wanted = [*private, *(name for parent in parents for name in vars(parent).get("__own_private__", ()))]
    slots = [attribute for attribute in (*fields, *dict.fromkeys(wanted)) if attribute not in has_slot]
    is_first = not any(getattr(base, "__weakrefoffset__", 0) for base in bases)
    if is_first and any(getattr(base, "__is_document__", False) for base in bases):
        slots.append("__weakref__")
    return slots


def _ordered(fields: dict[str, FieldInfo], cls: Any) -> dict[str, FieldInfo]:
    """Put the id first; another field that is the id replaces the inherited one."""
    primary = next((name for name, info in fields.items() if info.key == "_id" and name != "id"), None)
    if primary is not None and "id" in fields and fields["id"].owner is not cls:
        fields.pop("id")
        if "id" in cls.__dict__:
            type.__setattr__(cls, "id", property(lambda self: getattr(self, primary)))
    first = primary or "id"
    names = ([first] if first in fields else []) + [name for name in fields if name != first]
    return {name: fields[name] for name in names}


def _caller_locals(cls: Any, annotations: dict[str, Any]) -> dict[str, Any]:
    """Return the names in annotations that come from the function around a model."""
    if "<locals>" not in cls.__qualname__:
        return {}
    frame = sys._getframe(2)
    if frame.f_code.co_name == "<module>":
        return {}
    named = set(re.findall(r"[^\W\d]\w*", " ".join(map(str, annotations.values()))))
    return {name: value for name, value in frame.f_locals.items() if name in named}


def _install_inverse(cls: Any, name: str, inverse: Inverse) -> None:
    cls.__inverses__[name] = descriptor = InverseDescriptor(inverse)
    type.__setattr__(cls, name, descriptor)


def _join_family(cls: Any) -> None:
    """Give a member of a family its tag, and add it to the family."""
    root = None
    for parent in reversed(cls.__mro__):
        if parent.__dict__.get("__root__") and not parent.__dict__.get("__abstract__"):
            root = parent
            break
    if root is None:
        # A subclass of a model that is not a root has its own collection.
        return
    if "__tag_value__" not in cls.__dict__:
        # No plan has cached anything of the class yet.
        type.__setattr__(
            cls, "__tag_value__", cls.__default_tag__() if cls is not root or root.__tag_root__ else None
        )
    if cls is not root and "__collection__" not in cls.__dict__:
        cls.__collection__ = root.__collection_name__()
    ancestors: tuple[Any, ...] = cls.__mro__[1:]
    for parent in ancestors:
        if "__model__" in parent.__dict__:
            parent.__model__.reset()


def private_default(self: Any, name: str) -> Any:
    """Give an instance its own copy of a private attribute's default, at first access."""
    for base in type(self).__mro__:
        defaults = base.__dict__.get("__private_defaults__")
        if defaults and name in defaults:
            value = copy.deepcopy(defaults[name])
            setattr(self, name, value)
            return value
    raise AttributeError(f"{self.__class__.__name__!r} object has no attribute {name!r}")


def make_partial_class(cls: Any) -> None:
    """Make the hidden class of partly loaded instances, whose missing fields raise."""

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        if name in cls.__fields__:
            raise NotLoaded(
                f"{cls.__name__}.{name} was not loaded; name it in only(), or reload the document"
            )
        return private_default(self, name)

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
