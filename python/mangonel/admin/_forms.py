"""A document as the texts of a form, and back. Knows no HTML and no server.

A form is a dict of texts by path. A path consists of the attributes and indexes that lead to a value, as
`lines.0.name`. Five marks may follow a path: `lines#` is the number of rows, `lines.0-` is set if a row is to be
removed, `lines.0^` is the former index of a moved row, `labels.0@` is the key of a row of a dict, and `address?` names
the class of the embedded document, or is "" for none.

A field that a form sends back unchanged is left alone, so a form cannot change a value that it cannot express.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mangonel.admin._texts import Leaf, Spec, index_of, is_carried, leaf_of, same_lines
from mangonel.odm._registry import is_instance
from mangonel.odm.errors import ValidationError
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.convert import from_dict, plain
from mangonel.odm.model.refs import Refs
from mangonel.odm.model.specs import default_of, spec_of

Form = dict[str, str]

SAME: Any = object()
"""Returned for a value that the form does not change."""
ABSENT: Any = object()
"""The old value, if the document does not exist yet."""

MAX_ROWS = 10_000
ROWS = frozenset({"list", "set", "frozenset", "tuple_of", "tuple", "refs", "dict"})
MOVED = frozenset({"list", "tuple_of", "refs"})
"""Types whose rows the user can reorder."""
WAYS = {"up": -1, "down": 1}


def open_fields(model: Any) -> Iterator[tuple[str, Spec]]:
    """Yield the fields of an embedded document that forms show: all except those of `__secret__`."""
    for name, spec in fields_of(model):
        if not is_secret(model, name):
            yield name, spec


def fields_of(model: Any) -> Iterator[tuple[str, Spec]]:
    """Yield the fields of a model by attribute, each with the description of its type."""
    for name in model.__plan__.fields:
        yield name, described(model, name)


def described(model: Any, name: str) -> Spec:
    """Return the description of a field's type."""
    field = model.__plan__.fields[name]
    return spec_of(field.type, field.metadata, field.nullable, model, field.info)


def is_secret(model: Any, name: str) -> bool:
    """Return whether a field's value must not be shown: `__secret__` of the model or a base names it."""
    return any(name in vars(base).get("__secret__", ()) for base in model.__mro__)


HIDDEN = "••••••"
"""Shown in place of a secret."""


def without_secrets(spec: Spec, value: Any) -> Any:
    """Return a value, or its stored form, for reading: dots for a `Secret`, and no fields of `__secret__`."""
    if value is None:
        return None
    leaf, kinds = leaf_of(spec), kinds_of(spec)
    if leaf is not None and leaf.input == "secret":
        return HIDDEN
    if spec["op"] in ROWS and isinstance(value, Mapping):
        return {key: without_secrets(item_of(spec, 0), part) for key, part in value.items()}
    if spec["op"] in ROWS and isinstance(value, (list, tuple, set, frozenset)):
        most = len(spec["argument"]) - 1 if spec["op"] == "tuple" else len(value)
        return [without_secrets(item_of(spec, min(at, most)), part) for at, part in enumerate(value)]
    if is_instance(value) and kinds:
        kinds, value = {"": type(value)}, plain(value, by_key=True)
    if not kinds or not isinstance(value, Mapping):
        return value
    found = dict(value)
    for model in kinds.values():
        for name, inner in fields_of(model):
            key = model.__plan__.fields[name].key
            if is_secret(model, name):
                found.pop(key, None)
            elif key in found:
                found[key] = without_secrets(inner, found[key])
    return found


def kinds_of(spec: Spec) -> dict[str, Any]:
    """Return the classes of embedded documents that a described type may be, by name."""
    if spec["op"] == "embedded":
        found = spec["argument"].__tagged__() or [spec["argument"]]
    elif spec["op"] == "union":
        found = [model for _, model in spec["argument"][1]]
    else:
        found = []
    return {model.__name__: model for model in found}


def item_of(spec: Spec, place: int) -> Spec:
    """Return the description of a row."""
    argument = spec["argument"]
    return argument[place] if spec["op"] == "tuple" else argument[2] if spec["op"] == "refs" else argument


def write(spec: Spec, path: str, value: Any, form: Form) -> None:
    """Add the texts of a value to a form.

    Args:
        spec: the description of its type.
        path: its path.
        value: the value.
        form: the texts so far.
    """
    kinds = kinds_of(spec)
    if spec["op"] in ROWS or kinds:
        form[f"{path}?"] = "" if value is None else type(value).__name__ if is_instance(value) else "1"
    if value is None:
        if not (spec["op"] in ROWS or spec["op"] == "embedded"):
            form[path] = ""
        return
    if is_instance(value):
        for name, inner in open_fields(type(value)):
            write(inner, f"{path}.{name}", held(value, name), form)
        return
    if spec["op"] in ROWS:
        _write_rows(spec, path, value, form)
        return
    text = _text(leaf_of(spec), value)
    if text is not None:
        form[path] = text


def _write_rows(spec: Spec, path: str, value: Any, form: Form) -> None:
    rows = list(_rows(spec, value))
    form[f"{path}#"] = str(len(rows))
    for place, row in enumerate(rows):
        if spec["op"] == "dict":
            form[f"{path}.{place}@"], row = row
        write(item_of(spec, place), f"{path}.{place}", row, form)


def _rows(spec: Spec, value: Any) -> Iterable[Any]:
    """Return the parts of a value, in the same order in every process."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, Refs):
        return list(value.ids)
    if isinstance(value, (set, frozenset)):
        leaf = leaf_of(spec["argument"])
        return sorted(value, key=lambda item: (_text(leaf, item) or "") if leaf else repr(item))
    return value if isinstance(value, (list, tuple)) else list(value)


def _text(leaf: Leaf | None, value: Any) -> str | None:
    """Return the text of a value; None if a form cannot carry it, or if it is not of its field's type."""
    if leaf is None:
        return None
    if value is None:
        return ""
    try:
        text = leaf.write(value)
    except Exception:
        return None
    return text if isinstance(text, str) and is_carried(text) else None


def blank(spec: Spec, path: str, form: Form, depth: int = 3) -> None:
    """Add the form of a value that does not exist yet: a list without rows, or a required embedded document.

    Args:
        spec: the description of its type.
        path: its path.
        form: the texts so far.
        depth: how many levels of embedded documents to open.
    """
    kinds = kinds_of(spec)
    if spec["op"] in ROWS:
        form[f"{path}?"] = "" if spec["nullable"] else "1"
        size = len(spec["argument"]) if spec["op"] == "tuple" and not spec["nullable"] else 0
        form[f"{path}#"] = str(size)
        for place in range(size):
            blank(item_of(spec, place), f"{path}.{place}", form, depth)
    elif kinds:
        is_open = len(kinds) == 1 and spec["op"] == "embedded" and not spec["nullable"] and depth > 0
        form[f"{path}?"] = next(iter(kinds)) if is_open else ""
        if is_open:
            open_kind(kinds[form[f"{path}?"]], path, form, depth - 1)
        elif spec["op"] == "union":
            form[path] = ""
    else:
        form[path] = ""


def open_kind(model: Any, path: str, form: Form, depth: int = 3) -> None:
    """Add the form of an embedded document with its defaults."""
    for name, inner in open_fields(model):
        start(model, name, inner, f"{path}.{name}" if path else name, form, depth)


def start(model: Any, name: str, spec: Spec, path: str, form: Form, depth: int = 3) -> None:
    """Add the form of a new document's field, with its default."""
    kind, value = default_of(model.__plan__.fields[name], spec)
    made = {"list": list, "dict": dict, "set": set}.get(kind)
    if made is not None:
        value = made()
    elif kind == "object_id" or kind == "factory":
        value = value()
    if kind == "required" or value is None:
        blank(spec, path, form, depth)
    else:
        write(spec, path, value, form)


def misfits(instance: Any, edited: Iterable[tuple[str, Spec]], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of a stored document that break the bounds of their fields: the path and the reason.

    Args:
        instance: the document, or an embedded one, whose values are set again, unchanged.
        edited: its fields to check.
        path: its path.
    """
    for name, spec in edited:
        value, at = held(instance, name), f"{path}.{name}" if path else name
        if spec["checks"] and value is not None:
            try:
                setattr(instance, name, value)
            except (ValidationError, TypeError) as error:
                yield at, error.errors()[0]["message"] if isinstance(error, ValidationError) else str(error)
        rows = enumerate(value) if isinstance(value, (list, tuple)) else [(None, value)]
        for place, row in rows:
            if is_instance(row) and kinds_of(spec if place is None else item_of(spec, place)):
                below = at if place is None else f"{at}.{place}"
                yield from misfits(row, open_fields(type(row)), below)


def add(spec: Spec, path: str, form: Form, wanted: str) -> None:
    """Add a row or an embedded document, after its button was pressed.

    Args:
        spec: the description of the field that the path begins with.
        path: path of the field.
        form: the form that was sent; it is changed.
        wanted: path of the list, and after a colon the name of a class.

    Raises:
        ValueError: there is no such place.
    """
    place, _, kind = wanted.partition(":")
    for inner, at in _along(spec, path, form, place):
        if at != place:
            continue
        kinds = kinds_of(inner)
        if kind in kinds:
            form[f"{at}?"] = kind
            open_kind(kinds[kind], at, form)
            return
        if inner["op"] in ROWS:
            if form.get(f"{at}?") == "":
                form[f"{at}?"] = "1"
                if inner["op"] == "tuple":
                    blank({**inner, "nullable": False}, at, form)
                return
            if inner["op"] == "tuple":
                break
            count = row_count(form, at)
            form[f"{at}#"] = str(count + 1)
            item = {**item_of(inner, count), "nullable": False}
            if inner["op"] == "dict":
                form[f"{at}.{count}@"] = ""
            blank(item, f"{at}.{count}", form)
            return
    raise ValueError(f"expected a list or an embedded document to add to, got {wanted!r}")


def move(spec: Spec, path: str, form: Form, wanted: str) -> None:
    """Swap a row with its neighbour, after its button was pressed.

    Args:
        spec: the description of the field that the path begins with.
        path: path of the field.
        form: the form that was sent; it is changed.
        wanted: path of the row, and after a colon "up" or "down".

    Raises:
        ValueError: there is no such row, or no neighbour.
    """
    place, _, way = wanted.partition(":")
    rows, _, number = place.rpartition(".")
    found = [inner for inner, at in _along(spec, path, form, rows) if at == rows]
    here = index_of(number)
    if way in WAYS and found and found[0]["op"] in MOVED and here is not None:
        there = here + WAYS[way]
        if min(here, there) >= 0 and max(here, there) < row_count(form, rows):
            taken = [_row_taken(form, f"{rows}.{one}", str(one)) for one in (here, there)]
            for one, texts in zip((there, here), taken, strict=True):
                form.update({f"{rows}.{one}{rest}": text for rest, text in texts.items()})
            return
    raise ValueError(f"expected a row of a list to move, got {wanted!r}")


def _row_taken(form: Form, at: str, number: str) -> Form:
    """Take a row out of a form; return its texts by the rest of their keys after its path."""
    keys = [key for key in form if key == at or (key.startswith(at) and key[len(at)] in ".?#-^")]
    return {"^": number, **{key[len(at) :]: form.pop(key) for key in keys}}


def _along(spec: Spec, path: str, form: Form, place: str) -> Iterator[tuple[Spec, str]]:
    """Yield the described types on the way to a place, each with its path."""
    yield spec, path
    steps = place[len(path) :].split(".")[1:]
    for step in steps:
        kinds, row = kinds_of(spec), index_of(step)
        if kinds:
            model = kinds.get(form.get(f"{path}?", ""))
            spec = dict(open_fields(model)).get(step, {}) if model is not None else {}
        elif (
            spec["op"] in ROWS and row is not None and (spec["op"] != "tuple" or row < len(spec["argument"]))
        ):
            spec = item_of(spec, row)
        else:
            return
        if not spec:
            return
        path = f"{path}.{step}"
        yield spec, path


def row_count(form: Form, path: str) -> int:
    """Return how many rows a form has at a path."""
    return min(index_of(form.get(f"{path}#", "")) or 0, MAX_ROWS)


def digest(path: str, form: Form) -> str:
    """Return a short hash of a field's texts in a form, to detect concurrent changes."""
    texts = sorted((key, same_lines(text)) for key, text in form.items() if is_of(path, key))
    return hashlib.sha256(repr(texts).encode("utf-8", "backslashreplace")).hexdigest()[:24]


def is_of(path: str, key: str) -> bool:
    """Return whether a text of a form belongs to the value at a path."""
    return key == path or (key.startswith(path) and key[len(path)] in ".?#")


def said(spec: Spec, path: str, form: Form) -> str:
    """Return a field's texts in a form as one readable text."""
    found, leaf = [], leaf_of(spec)
    options = dict(leaf.options) if leaf is not None else {}
    for key, text in form.items():
        # The other marks are for programs: a number of rows, or that there is a list.
        if is_of(path, key) and not key.endswith("#") and not (key.endswith("?") and text in ("", "1")):
            found.append(f"{key[len(path) :].strip('.?@')} {options.get(text, text)}".strip())
    return ", ".join(text for text in found if text) or "nothing"


def leaf_at(spec: Spec, path: str, form: Form, place: str) -> Leaf | None:
    """Return how the value at a place in a field becomes text; None if there is no single value."""
    found = [inner for inner, at in _along(spec, path, form, place) if at == place]
    return leaf_of(found[0]) if found else None


def read(spec: Spec, path: str, form: Form, old: Any, faults: dict[str, str]) -> Any:
    """Return the value that a form gives a field, or SAME.

    Args:
        spec: the description of its type.
        path: its path.
        form: the form that was sent.
        old: the current value, or ABSENT. Its embedded documents are changed in place.
        faults: gets the reasons why values cannot be read, by path.
    """
    mark = form.get(f"{path}?")
    kinds = kinds_of(spec)
    if spec["op"] in ROWS or kinds:
        if mark is None:
            return SAME
        if mark == "" and not (spec["op"] == "union" and form.get(path)):
            return SAME if old is None or old is ABSENT else None
        if mark in kinds:
            return _read_instance(kinds[mark], path, form, old, faults)
        if spec["op"] in ROWS:
            return _read_rows(spec, path, form, old, faults)
        if spec["op"] == "embedded":
            faults[path] = f"expected one of {', '.join(kinds)}"
            return SAME
    return _read_leaf(spec, path, form, old, faults)


def _read_leaf(spec: Spec, path: str, form: Form, old: Any, faults: dict[str, str]) -> Any:
    text, leaf = form.get(path), leaf_of(spec)
    if text is None or leaf is None:
        return SAME
    text = same_lines(text)
    if leaf.input == "secret" and text == "":
        return SAME
    if old is not ABSENT:
        before = _text(leaf, old)
        if before is None or text == same_lines(before):
            return SAME
    if text == "" and (spec["nullable"] or old is ABSENT):
        return None if old is not ABSENT else SAME
    try:
        value = leaf.read(text)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        faults[path] = str(error) or f"expected {spec['label']}"
        return SAME
    if old is not ABSENT and type(value) is type(old) and value == old:
        return SAME
    return value


def _read_instance(model: Any, path: str, form: Form, old: Any, faults: dict[str, str]) -> Any:
    if type(old) is model:
        for name, inner in open_fields(model):
            value = read(inner, f"{path}.{name}", form, held(old, name), faults)
            if value is SAME:
                continue
            try:
                setattr(old, name, value)
            except (ValidationError, TypeError, AttributeError) as error:
                note(error, path, f"{path}.{name}", faults)
        return SAME
    values = {}
    for name, inner in open_fields(model):
        value = read(inner, f"{path}.{name}", form, ABSENT, faults)
        if value is not SAME:
            values[name] = value
    if any(place.startswith(f"{path}.") for place in faults):
        return SAME
    try:
        return from_dict(model, values)
    except (ValidationError, TypeError) as error:
        note(error, path, path, faults)
        return SAME


def note(error: Exception, path: str, at: str, faults: dict[str, str]) -> None:
    """Add the faults of an error by path.

    Args:
        error: a ValidationError, whose paths begin at a document, or another error.
        path: path of that document; "" for the whole.
        at: where an error without a path belongs.
        faults: the faults so far.
    """
    if not isinstance(error, ValidationError):
        faults[at] = str(error)
        return
    for fault in error.errors():
        below = fault["path"].removeprefix("$").removeprefix(".").replace("[", ".").replace("]", "")
        place = f"{path}.{below}" if path and below else path or below
        faults[place if place.startswith(at) else at] = fault["message"]


def _read_rows(spec: Spec, path: str, form: Form, old: Any, faults: dict[str, str]) -> Any:
    has_old = old is not ABSENT and old is not None
    olds = list(_rows(spec, old)) if has_old else []
    is_dict = spec["op"] == "dict"
    made: list[Any] = []
    count = row_count(form, path)
    places = [_old_place(spec, form, path, place) for place in range(count)]
    if len(set(places)) < count:
        faults[path] = "expected each row once"
        return SAME
    known = [place for place in places if place < len(olds)]
    is_changed = old is None or known != sorted(known)
    for place, old_place in enumerate(places):
        at = f"{path}.{place}"
        if form.get(f"{at}-") and spec["op"] != "tuple":
            is_changed = is_changed or old_place < len(olds)
            continue
        was = olds[old_place] if old_place < len(olds) else ABSENT
        if spec["op"] == "tuple" and place >= len(spec["argument"]):
            break
        key, before = was if is_dict and was is not ABSENT else (None, was)
        value = read(item_of(spec, place), at, form, before, faults)
        if is_dict:
            sent = form.get(f"{at}@")
            new_key = (
                key if sent is None or (key is not None and same_lines(sent) == same_lines(key)) else sent
            )
            if value is SAME and (was is ABSENT or new_key is None):
                continue
            if not new_key and key is None:
                faults[at] = "expected a key"
                continue
            is_changed = is_changed or value is not SAME or new_key != key
            made.append((new_key, before if value is SAME else value))
        elif value is not SAME:
            is_changed = True
            made.append(value)
        elif was is not ABSENT:
            made.append(was)
    # Rows that are missing from the form stay.
    made += [row for place, row in enumerate(olds) if place not in known]
    if not is_changed or (old is ABSENT and not count):
        return SAME
    if is_dict and len({key for key, _ in made}) < len(made):
        faults[path] = "expected each key once"
        return SAME
    if spec["op"] == "tuple" and len(made) < len(spec["argument"]):
        faults[path] = f"expected {len(spec['argument'])} values"
        return SAME
    kind = {"dict": dict, "set": set, "frozenset": frozenset, "tuple": tuple, "tuple_of": tuple}.get(
        spec["op"], list
    )
    return kind(made)


def _old_place(spec: Spec, form: Form, path: str, place: int) -> int:
    """Return the index of a form's row in the stored list; an index past its end for a new row."""
    moved = index_of(form.get(f"{path}.{place}^", "")) if spec["op"] in MOVED else None
    return place if moved is None else moved
