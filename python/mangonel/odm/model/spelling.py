"""Finds misspelt names of options of classes and indexes, for which any name is allowed. Knows no model."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any

# The options of indexes that the driver and the server accept, besides the mapper's own.
INDEX_OPTIONS = frozenset(
    (
        "2dsphereIndexVersion",
        "background",
        "bits",
        "bucketSize",
        "clustered",
        "collation",
        "default_language",
        "expireAfterSeconds",
        "hidden",
        "language_override",
        "max",
        "min",
        "name",
        "partialFilterExpression",
        "prepareUnique",
        "sparse",
        "storageEngine",
        "textIndexVersion",
        "unique",
        "weights",
        "wildcardProjection",
    )
)

# A class defines these as methods; Python gives their names.
_METHODS = (types.FunctionType, classmethod, property)


def meant(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that another one is close to, or None."""
    import difflib

    names = {plain(one): one for one in known}
    found = difflib.get_close_matches(plain(name), names, 1, 0.75)
    return names[found[0]] if found else None


def plain(name: str) -> str:
    """Return a name in lower case without underscores, since spellings differ there."""
    return name.replace("_", "").lower()


def check_class_options(name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
    """Refuse an unknown option of a model whose name is close to a known one.

    Raises:
        TypeError: an option is misspelt.
    """
    given = [
        option
        for option, value in namespace.items()
        if option[:2] == "__" == option[-2:]
        and not isinstance(value, _METHODS)
        and not hasattr(object, option)
    ]
    known = _class_options(bases) if given else ()
    for option in given if known else ():
        if option not in known and (right := meant(option, known)) is not None:
            raise TypeError(
                f"expected an option of models in {name}, got {option!r}; did you mean {right!r}?"
            )


def check_keywords(name: str, bases: tuple[type, ...], keywords: Iterable[str]) -> None:
    """Refuse keywords of a class statement: a model's options are attributes.

    Raises:
        TypeError: there is one; the message names the option that was probably meant.
    """
    for keyword in keywords:
        right = meant(keyword, _class_options(bases))
        remedy = (
            f"write {right} = … in the class" if right is not None else "options are attributes of the class"
        )
        raise TypeError(f"expected no keywords in the class statement of {name}, got {keyword!r}; {remedy}")


def _class_options(bases: tuple[type, ...]) -> set[str]:
    """Return the options that the mapper's classes among the bases have."""
    return {
        option
        for base in bases
        for parent in base.__mro__
        if parent.__module__.startswith("mangonel.odm.")
        for option, value in vars(parent).items()
        if option[:2] == "__" == option[-2:] and not isinstance(value, _METHODS)
    }


def check_index_options(options: Iterable[str], place: str = "") -> None:
    """Refuse an unknown option of an index whose name is close to a known one.

    Args:
        options: as they were given, without the mapper's own parameters.
        place: where, as `" in User.name"`, if that is known.

    Raises:
        TypeError: an option is misspelt.
    """
    known = (*INDEX_OPTIONS, "expire_after", "partial")
    for option in options:
        if option not in INDEX_OPTIONS and (right := meant(option, known)) is not None:
            raise TypeError(f"expected an option of indexes{place}, got {option!r}; did you mean {right!r}?")


def check_index_texts(name: str, annotations: Mapping[str, Any]) -> None:
    """Refuse a misspelt option of an `Indexed` in an annotation that is text, which is evaluated at the first use.

    Args:
        name: the model's name.
        annotations: those of its fields.

    Raises:
        TypeError: an option is misspelt.
    """
    for attribute, text in annotations.items():
        if not isinstance(text, str) or "Indexed(" not in text:
            continue
        import ast

        for node in ast.walk(ast.parse(text.strip(), mode="eval")):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Indexed":
                named = {word.arg for word in node.keywords if word.arg} - {"kind", "expire_after"}
                check_index_options(sorted(named), f" in {name}.{attribute}")
