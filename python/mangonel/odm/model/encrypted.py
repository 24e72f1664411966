"""`Encrypted`: marks a value to encrypt before it is sent; and the tree of a model's encrypted values.

Knows no connection, no command and no cipher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from mangonel.bson.binary import Binary
from mangonel.odm._registry import is_model, models
from mangonel.odm.model.annotations import unwrap

ALGORITHMS = {
    "deterministic": "AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic",
    "random": "AEAD_AES_256_CBC_HMAC_SHA_512-Random",
    "indexed": "Indexed",
    "unindexed": "Unindexed",
    "range": "Range",
}
# The algorithms of Queryable Encryption, which need a collection created for them.
QUERYABLE = ("indexed", "unindexed", "range")
_NAMES = {name: short for short, name in ALGORITHMS.items()}
# The types that an algorithm cannot encrypt, by the core's names.
_REFUSED = {
    "deterministic": ("float", "decimal", "bool"),
    "indexed": ("float", "decimal"),
    "random": (),
    "unindexed": (),
}
_RANGES = ("int", "float", "decimal", "datetime", "date")
_SCALARS = (
    "str",
    "int",
    "float",
    "bool",
    "bytes",
    "datetime",
    "date",
    "object_id",
    "decimal",
    "literal",
    "enum",
    "instance",
    "custom",
)
_UUID = 4

# Every mark that the program made. Without any, models are not searched for marks.
declared: list[Encrypted] = []


class Encrypted:
    """Marks an encrypted field, inside `Annotated`: encrypted before sending, decrypted on reading. None stays None.

    Args:
        algorithm: "random": the value cannot be queried. "deterministic": equal values can be found, and also be
            recognised as equal in the stored data. "indexed", "range", "unindexed": Queryable Encryption, which needs
            MongoDB 7.0. Or a member of `mangonel.encryption.Algorithm`.
        key: the data key: its id, its alternative name, or a function without arguments that returns either.
        key_field: a field of the document with the alternative name of its key, so that each document, or each person,
            has its own key. For "random" only.
        contention_factor: for "indexed" and "range": over how many entries equal values are spread.
        range: for "range": the `RangeOpts` of the field's index.

    Raises:
        TypeError, ValueError: the arguments contradict each other.

    Example:
        >>> class Patient(Document):
        ...     ssn: Annotated[str, Encrypted("deterministic", key="patients")]
        >>> Patient.ssn
        Patient.ssn
    """

    __slots__ = ("algorithm", "contention_factor", "key", "key_field", "range")

    def __init__(
        self,
        algorithm: str = "random",
        *,
        key: Binary | UUID | str | Callable[[], Any] | None = None,
        key_field: str | None = None,
        contention_factor: int | None = None,
        range: Any = None,
    ) -> None:
        text = str(getattr(algorithm, "value", algorithm))
        short = _NAMES.get(text, text)
        if short not in ALGORITHMS:
            raise ValueError(f"expected one of {', '.join(ALGORITHMS)} as the algorithm, got {algorithm!r}")
        if (key is None) == (key_field is None):
            raise TypeError(
                f"expected exactly one of key and key_field, got {'none' if key is None else 'both'}"
            )
        if key is not None and not callable(key):
            check_key(key)
        if key_field is not None and short != "random":
            raise ValueError(f'expected the algorithm "random" with key_field, got "{short}": use key')
        if (range is not None) != (short == "range"):
            raise TypeError('expected range=RangeOpts(...) with the algorithm "range", and with no other')
        if contention_factor is not None and short not in ("indexed", "range"):
            raise TypeError(f'contention_factor means nothing to "{short}"; leave it out')
        self.algorithm = short
        self.key = key
        self.key_field = key_field
        # MongoDB's own default.
        self.contention_factor = 8 if contention_factor is None and short in ("indexed", "range") else None
        if contention_factor is not None:
            self.contention_factor = contention_factor
        self.range = range
        declared.append(self)

    @property
    def is_equal_findable(self) -> bool:
        """Whether equal values have equal ciphertexts."""
        return self.algorithm == "deterministic"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encrypted) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self.algorithm)

    def _parts(self) -> tuple[Any, ...]:
        document = None if self.range is None else self.range.document
        return self.algorithm, self.key, self.key_field, self.contention_factor, document

    def __repr__(self) -> str:
        named = f"key_field={self.key_field!r}" if self.key is None else f"key={self.key!r}"
        return f"Encrypted({self.algorithm!r}, {named})"


def check_key(key: Any) -> None:
    """Refuse a value that names no data key.

    Raises:
        TypeError: neither an id nor a name.
    """
    if isinstance(key, (str, UUID)) or (isinstance(key, Binary) and key.subtype == _UUID):
        return
    raise TypeError(
        f"expected the key to be a UUID, a Binary of subtype 4 or an alternative name, got {type(key).__name__}"
    )


class Node:
    """The encryption of a value, or of the values in it.

    Attributes:
        rule: the mark of the value itself. None: it is not encrypted.
        fields: for a document, by key.
        values: for a map, of each value.
        each: for a list, of each element.
        has_plain: the value may also be a plain alternative, which is not encrypted.
        types: the BSON types of the value in its schema.
    """

    __slots__ = ("_is_sealed", "each", "fields", "has_plain", "rule", "types", "values")

    def __init__(self, rule: Encrypted | None = None, types: Any = None) -> None:
        self.rule = rule
        self.types = types
        self.fields: dict[str, Node] = {}
        self.values: Node | None = None
        self.each: Node | None = None
        self.has_plain = False
        self._is_sealed: bool | None = None

    def parts(self) -> Iterator[tuple[str, Node]]:
        """Yield the parts with their keys; `[]` and `*` for elements and values."""
        yield from self.fields.items()
        if self.each is not None:
            yield "[]", self.each
        if self.values is not None:
            yield "*", self.values

    @property
    def is_sealed(self) -> bool:
        """Whether a part of it is encrypted."""
        if self._is_sealed is None:
            self._is_sealed = any(True for _ in self.rules())
        return self._is_sealed

    def rules(self) -> Iterator[tuple[str, Node]]:
        """Yield the encrypted values with their paths; a recursive model counts once."""
        seen: list[Node] = [self]
        queue: list[tuple[str, Node]] = [("", self)]
        for path, node in queue:
            if node.rule is not None:
                yield path, node
            for name, part in node.parts():
                if not any(part is other for other in seen):
                    seen.append(part)
                    queue.append((f"{path}.{name}" if path else name, part))

    @property
    def is_queryable(self) -> bool:
        """Whether a part is encrypted for Queryable Encryption, whose collections have special rules."""
        return any(node.rule is not None and node.rule.algorithm in QUERYABLE for _, node in self.rules())

    @property
    def takes_documents(self) -> bool:
        """Whether the value may be a document, or a list of them."""
        within = bool(self.fields) or self.values is not None or self.has_plain
        return within or (self.each is not None and self.each.takes_documents)

    @property
    def is_equal_findable(self) -> bool:
        """Whether equal whole values are stored as equal bytes."""
        return all(node.rule is None or node.rule.is_equal_findable for _, node in self.rules())

    def copy(self) -> Node:
        """Return a copy with the same parts."""
        made = Node(self.rule)
        made.fields, made.each, made.values = dict(self.fields), self.each, self.values
        made.has_plain = self.has_plain
        return made

    def merge(self, other: Node, where: str) -> bool:
        """Add the encryption of another model of the same collection, or of another alternative.

        Returns:
            Whether something was new.

        Raises:
            TypeError: the two contradict each other.
        """
        return self._merge(other, where, [])

    def _merge(self, other: Node, where: str, seen: list[tuple[Node, Node]]) -> bool:
        # Documents may contain documents of the same model.
        if self is other or any(self is mine and other is part for mine, part in seen):
            return False
        seen.append((self, other))
        if self.rule != other.rule:
            raise TypeError(
                f"expected one way of encryption at {where}, got {self.rule!r} and {other.rule!r}"
            )
        has_new = other.has_plain and not self.has_plain
        self.has_plain |= other.has_plain
        for name, part in other.fields.items():
            mine = self.fields.get(name)
            if mine is None:
                self.fields[name] = part
                has_new = True
            else:
                has_new |= mine._merge(part, f"{where}.{name}", seen)
        for name in ("each", "values"):
            mine, other_part = getattr(self, name), getattr(other, name)
            if mine is None and other_part is not None:
                setattr(self, name, other_part)
                has_new = True
            elif mine is not None and other_part is not None:
                has_new |= mine._merge(other_part, where, seen)
        self._is_sealed = None
        return has_new


def mark_of(metadata: Any) -> Encrypted | None:
    """Return the mark among the arguments of `Annotated`.

    Raises:
        TypeError: the class instead of an instance, or two marks.
    """
    found: Encrypted | None = None
    for item in metadata:
        if item is Encrypted:
            raise TypeError("expected Encrypted(algorithm, key=…) inside Annotated, got the class")
        if isinstance(item, Encrypted):
            if found is not None:
                raise TypeError("expected one Encrypted inside Annotated, got two")
            found = item
    return found


def count_marks(annotation: Any, owner: Any) -> int:
    """Return how many encryption marks an annotation contains, at any depth."""
    metadata: list[Any] = []
    plain = unwrap(annotation, metadata, owner)
    count = sum(1 for item in metadata if isinstance(item, Encrypted))
    if is_model(plain):
        return count
    arguments = getattr(plain, "__args__", ()) or ()
    # The arguments of Literal and Callable are not types.
    parts = [part for part in arguments if not isinstance(part, (str, int, list)) and part is not Ellipsis]
    return count + sum(count_marks(part, owner) for part in parts)


def count_rules(spec: Any) -> int:
    """Return how many marks a description contains."""
    if isinstance(spec, dict) and "encrypted" in spec:
        return (spec["encrypted"] is not None) + count_rules(spec["argument"])
    if isinstance(spec, (list, tuple)):
        return sum(count_rules(part) for part in spec)
    return 0


def check_rule(rule: Encrypted, spec: dict[str, Any], where: str) -> None:
    """Refuse a mark on a type that it cannot encrypt.

    Raises:
        TypeError: the type cannot be encrypted.
    """
    op = spec["op"]
    if op == "union":
        _, rows, others = spec["argument"]
        if rows:
            raise TypeError(f"cannot encrypt {where} as a whole: mark the fields of its embedded documents")
        for other in others:
            check_rule(rule, other, where)
        return
    if op not in _SCALARS:
        remedy = {
            "embedded": "mark the fields of the embedded document",
            "dict": "mark its values: dict[str, Annotated[str, Encrypted(…)]]",
            "any": "give it a type",
            "ref": "references are looked up by the server",
            "refs": "references are looked up by the server",
            "geo": "the server cannot measure it",
        }.get(op, "mark its elements: list[Annotated[str, Encrypted(…)]]")
        raise TypeError(f"cannot encrypt {where}, a {spec['label']}, as a whole: {remedy}")
    if op == "custom" and spec["label"] == "deque":
        raise TypeError(f"cannot encrypt {where}, a deque: use a list, and mark its elements")
    if rule.algorithm == "range":
        if op not in _RANGES:
            raise TypeError(
                f'cannot encrypt {where}, a {spec["label"]}, by "range": it is for numbers and dates'
            )
    elif op in _REFUSED[rule.algorithm]:
        raise TypeError(
            f'cannot encrypt {where}, a {spec["label"]}, by "{rule.algorithm}": it has too few values; use "random"'
        )


def _family(model: Any) -> list[Any]:
    """Return the models whose instances may be stored in place of this one.

    For embedded documents, that is every subclass, with or without a tag; for documents, all models of its collection.
    """
    if model.__is_document__:
        return [model, *(one for one in model.__tagged__() if one is not model)]
    found = [model]
    for one in found:
        # The hidden class of partial loads is a subclass too.
        found += [
            child
            for child in one.__subclasses__()
            if child not in found and ("__model__" in child.__dict__ or "__abstract__" in child.__dict__)
        ]
    return [one for one in found if one is model or "__model__" in one.__dict__]


def tree_of_specs(cls: Any, specs_of: Callable[[Any], Iterator[tuple[Any, Any]]]) -> Node:
    """Return the encrypted fields of the documents of a model and its family.

    Args:
        cls: the model.
        specs_of: yields the fields of a model, each with its description.
    """
    known: dict[Any, Node] = {}
    # Alternatives may be models whose fields are not known yet, so they are merged at the end.
    later: list[tuple[Node, Node, str]] = []

    def of_model(model: Any, is_in_list: bool) -> Node:
        found = known.get((model, is_in_list))
        if found is not None:
            return found
        made = known[model, is_in_list] = Node()
        plain = set()
        for other in _family(model):
            for field, spec in specs_of(other):
                where = f"{other.__name__}.{field.name}"
                part = of_spec(spec, where, is_in_list)
                if part is None:
                    plain.add(field.key)
                    continue
                mine = made.fields.get(field.key)
                if mine is None:
                    made.fields[field.key] = part
                elif mine is not part:
                    later.append((mine, part, where))
        for key in plain & made.fields.keys():
            # Another model of the family has a different type there.
            if made.fields[key].rule is None:
                part = made.fields[key]
                made.fields[key] = either = Node()
                either.has_plain = True
                later.append((either, part, f"{model.__name__}.{key}"))
        return made

    def of_spec(spec: dict[str, Any], where: str, is_in_list: bool) -> Node | None:
        op, argument, rule = spec["op"], spec["argument"], spec["encrypted"]
        if rule is not None:
            if is_in_list and rule.algorithm in QUERYABLE:
                raise TypeError(
                    f'cannot encrypt {where} by "{rule.algorithm}" inside a list or map: Queryable Encryption has '
                    'no such fields; use "random" or "deterministic"'
                )
            return Node(rule, spec)
        made = Node()
        if op in ("list", "set", "frozenset", "tuple_of"):
            made.each = of_spec(argument, where, True)
        elif op == "tuple":
            for inner in argument:
                if any(other["encrypted"] != inner["encrypted"] for other in argument):
                    raise TypeError(f"cannot encrypt some elements of the tuple {where}, and others not")
                part = of_spec(inner, where, True)
                if part is not None and made.each is not None:
                    later.append((made.each, part, where))
                made.each = made.each or part
        elif op == "dict":
            made.values = of_spec(argument, where, True)
        elif op == "embedded":
            return of_model(argument, is_in_list)
        elif op == "union":
            _, rows, others = argument
            found = [of_spec(other, where, is_in_list) for other in others]
            parts = [of_model(model, is_in_list) for _, model in rows]
            parts += [part for part in found if part is not None]
            rules = [part.rule for part in parts if part.rule is not None]
            if rules and (len(rules) < len(parts) or any(rule != rules[0] for rule in rules)):
                raise TypeError(
                    f"cannot encrypt some alternatives of {where}, and others otherwise or within"
                )
            if rules:
                # Even a plain alternative reveals by its type that it is not the encrypted one.
                return Node(rules[0], spec)
            later.extend((made, part, where) for part in parts)
            made.has_plain = None in found
            return made if parts else None
        return made if made.each or made.values or made.fields or made.rule else None

    tree = of_model(cls, False)
    has_new = True
    while has_new:
        has_new = False
        for made, part, where in later:
            has_new |= made.merge(part, where)
    return tree


def models_of(collection: str, first: Any = None) -> list[Any]:
    """Return the document models of a collection; if one was redefined, only the last definition.

    Args:
        collection: name of the collection.
        first: a model to include in any case.
    """
    found: dict[Any, Any] = {}
    for model in models:
        if model.__is_document__ and model.__collection_name__() == collection:
            found[model.__module__, model.__qualname__] = model
    if first is not None:
        found[first.__module__, first.__qualname__] = first
    return list(found.values())
