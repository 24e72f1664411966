"""The encrypted fields of a model's documents, and whether the program has any, from the descriptions of types."""

from __future__ import annotations

import typing
from typing import Any

from mangonel.odm._registry import models
from mangonel.odm.model.annotations import evaluate
from mangonel.odm.model.encrypted import (
    Node,
    count_marks,
    count_rules,
    declared,
    models_of,
    tree_of_specs,
)
from mangonel.odm.model.fields import Resolved
from mangonel.odm.model.specs import spec_of

# The encrypted fields of a model's documents, and how many models there were when they were found.
_trees: dict[Any, tuple[int, Node | None]] = {}
# Models without encryption marks, each with the number of models at the time of the check.
_unmarked: dict[Any, int] = {}


def check_encrypted(cls: Any, field: Resolved, spec: dict[str, Any]) -> None:
    """Refuse an encryption mark that has no effect, or one on a field that must be readable.

    Raises:
        TypeError: there is one.
    """
    where = f"{cls.__name__}.{field.name}"
    marks = count_marks(evaluate(field.info.annotation, field.info.owner), field.info.owner)
    if marks != count_rules(spec):
        raise TypeError(
            f"cannot encrypt what Encrypted stands at in {where}: expected a field, or the elements of a list or the "
            "values of a dict in it"
        )
    rule = field.encrypted
    if rule is None:
        return
    for what, is_so in (
        ("the _id", field.key == "_id"),
        ("the version", field.is_version),
        ("a counter", field.sequence is not None),
        ("a part of the shard key", cls.__is_document__ and field.name in cls.__shard_key__),
    ):
        if is_so:
            raise TypeError(f"cannot encrypt {where}: it is {what}, which the server must read")
    for index in field.indexes:
        is_equal = index.kind in (1, -1) and "expireAfterSeconds" not in index.options
        if not (rule.is_equal_findable and is_equal):
            raise TypeError(
                f'cannot index {where}, which is encrypted by "{rule.algorithm}": an index serves "deterministic" '
                "alone, for equal values"
            )


def may_encrypt(cls: Any) -> bool:
    """Whether the program has encryption marks.

    The annotations of the model are evaluated first, and those of its family, of its embedded documents and of other
    models of its collection: until then they may name marks that were never created.
    """
    if declared:
        return True
    # A model defined later may bring marks.
    if _unmarked.get(cls) == len(models):
        return False
    _new_tree(cls)
    is_whole = True
    for model in models_of(cls.__collection_name__(), cls):
        try:
            _new_tree(model)
        except TypeError:
            # A model that names something undefined reports that itself, when it is used.
            is_whole = False
    if is_whole and not declared:
        _unmarked[cls] = len(models)
    return bool(declared)


def encrypted_tree(cls: Any) -> Node | None:
    """Return the encrypted fields of a model's documents, or None.

    Raises:
        TypeError: two models of one collection contradict each other.
    """
    if not may_encrypt(cls):
        return None
    known = _trees.get(cls)
    # A model defined later may belong to the family.
    if known is None or known[0] != len(models):
        known = _trees[cls] = (len(models), _new_tree(cls))
    return known[1]


def _new_tree(cls: Any) -> Node | None:
    tree = tree_of_specs(cls, _specs_of)
    if not tree.is_sealed:
        return None
    for path, node in tree.rules():
        name = node.rule.key_field if node.rule is not None else None
        if name is None:
            continue
        field = cls.__plan__.fields.get(name) or cls.__plan__.by_key.get(name)
        if field is None or field.type is not str or field.encrypted is not None:
            raise TypeError(
                f"expected key_field of {cls.__name__}.{path} to be a field of {cls.__name__} that is a str and not "
                f"encrypted, got {name!r}"
            )
    return tree


def _specs_of(cls: Any) -> typing.Iterator[tuple[Resolved, dict[str, Any]]]:
    for field in cls.__plan__.fields.values():
        spec = spec_of(field.type, field.metadata, field.nullable, cls, field.info)
        check_encrypted(cls, field, spec)
        yield field, spec
