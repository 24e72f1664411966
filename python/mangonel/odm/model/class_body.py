"""Reads a model's class statement: fields, inverses and private attributes. Refuses names that it must not use."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from mangonel import _core
from mangonel.odm.model.embedded_in import SLOT, EmbeddedIn
from mangonel.odm.model.fields import MISSING, FieldInfo, Inverse
from mangonel.odm.model.spelling import check_class_options

# A reference that cannot be None, by the text of its annotation; aliases are resolved at first use.
_BARE_REF = re.compile(r"^\s*(\w+\.)?(?:Ref|BelongsTo)\[[\w.\"']+\]\s*$")

# The settings of a model's collection.
_SETTINGS = {"read_concern", "read_preference", "write_concern"}
# Where other mappers keep such settings, and their names for settings that would otherwise be ignored unnoticed.
_FOREIGN = ("Settings", "Meta", "meta")
_FOREIGN_SETTINGS = {
    "name": "__collection__",
    "collection": "__collection__",
    "collection_name": "__collection__",
}
_FOREIGN_SETTINGS |= {"indexes": "__indexes__"}


@dataclass(slots=True)
class ClassBody:
    """The annotated names of a class statement: fields, inverses and private attributes."""

    annotations: dict[str, Any]
    fields: dict[str, FieldInfo] = field(default_factory=dict)
    inverses: dict[str, Inverse] = field(default_factory=dict)
    private: list[str] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)  # of private attributes


def read_body(name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ClassBody:
    """Take the annotated names out of a class's namespace; TypeError for one that cannot be a model's."""
    body = ClassBody(_annotations(namespace))
    for attribute, annotation in body.annotations.items():
        if attribute.startswith("__") or _is_class_variable(annotation):
            continue
        default = namespace.get(attribute, MISSING)
        if isinstance(default, Inverse):
            body.inverses[attribute] = default
        elif isinstance(default, EmbeddedIn):
            if _is_below_a_document(bases):
                raise TypeError(f"cannot keep embedded_in() in {name}: a document stands in no other")
            body.private.append(SLOT)
        elif attribute.startswith("_"):
            body.private.append(attribute)
            if namespace.pop(attribute, MISSING) is not MISSING:
                body.defaults[attribute] = default
        else:
            namespace.pop(attribute, None)
            info = default if isinstance(default, FieldInfo) else FieldInfo(default)
            body.fields[attribute] = replace(info, name=attribute, annotation=annotation)
            if info.on_delete == "nullify" and isinstance(annotation, str) and _BARE_REF.match(annotation):
                raise TypeError(
                    f'cannot set {name}.{attribute} to None when its target is deleted: on_delete="nullify" wants '
                    "a reference that may be None"
                )
    _check_fields(name, bases, body.fields)
    _check_options(name, bases, namespace)
    return body


def check_extra(
    name: str, bases: tuple[type, ...], namespace: dict[str, Any], fields: dict[str, FieldInfo]
) -> None:
    """Raise TypeError for a field `extra` of a dynamic model."""
    is_dynamic = namespace.get("__dynamic__", any(getattr(base, "__dynamic__", False) for base in bases))
    if "extra" in fields and is_dynamic:
        raise TypeError(
            f"cannot call a field 'extra' in {name}: a dynamic model holds the keys without a field there; give "
            'the attribute another name, and key="extra"'
        )


def check_keys(name: str, fields: dict[str, FieldInfo]) -> None:
    """Raise TypeError for a key that two fields share, or that updates take for a path or an operator."""
    taken: dict[str, str] = {}
    for attribute, info in fields.items():
        key = info.key or ("_id" if attribute == "id" else attribute)
        if "." in key or key.startswith("$"):
            raise TypeError(
                f"cannot store {name}.{attribute} as {key!r}: in updates a dot makes a path, a $ an operator"
            )
        if taken.setdefault(key, attribute) != attribute:
            raise TypeError(f"cannot store {name}.{attribute} as {key!r}: {taken[key]} has that key")


def _is_below_a_document(bases: tuple[type, ...]) -> bool:
    return any(getattr(base, "__is_document__", False) for base in bases)


def _check_fields(name: str, bases: tuple[type, ...], fields: dict[str, FieldInfo]) -> None:
    taken = set[str]().union(*map(_methods, bases))
    for attribute in fields:
        if attribute in taken:
            raise TypeError(
                f"cannot call a field {attribute!r} in {name}: the mapper has a method of that name"
            )


def _check_options(name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
    check_class_options(name, bases, namespace)
    if "find" in namespace and _is_below_a_document(bases):
        raise TypeError(
            f"cannot override find() in {name}: get() and others would not ask it; __default_scope__ holds for all"
        )
    for place in _FOREIGN:
        given = namespace.get(place)
        is_plain = isinstance(given, type) and not hasattr(given, "__fields__")
        for word in given if isinstance(given, dict) else vars(given) if is_plain else ():
            if (ours := _FOREIGN_SETTINGS.get(word)) is not None:
                raise TypeError(
                    f"cannot read {word!r} of {place} in {name}, which has no effect here: use {ours}"
                )
    if unknown := namespace.get("__options__", {}).keys() - _SETTINGS:
        raise TypeError(
            f"expected {', '.join(sorted(_SETTINGS))} in {name}.__options__, got {', '.join(sorted(unknown))}"
        )


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
    """Return the names that a field must not use, since the mapper's bases define them."""
    return {
        name
        for parent in base.__mro__
        if parent.__module__.startswith("mangonel.odm.") and isinstance(parent, _core.OdmMeta)
        for name, value in vars(parent).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, (classmethod, property)))
    } - {"extra"}
