"""Maps a path of a command to the model's encrypted value there, or below it."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from mangonel.odm.encryption.elements import (
    ARRAY,
    CODE,
    DOCUMENT,
    NULL,
    SCOPED,
    UNDEFINED,
    Group,
    Pending,
    is_encrypted,
    items_of,
    opened,
    text_of,
)
from mangonel.odm.errors import UnsupportedOption, ValidationError
from mangonel.odm.model.encrypted import Encrypted, Node, check_key

# Types that a data key cannot encrypt: these values stay plain.
_NOTHING = (NULL, UNDEFINED)
# Expression operators that name a field without a dollar sign.
_NAMING = ("$getField", "$setField", "$unsetField")


class Places:
    """Shared by the parts of one command: the model, and the values to encrypt.

    Attributes:
        name: the model's name, for messages.
        root: the encrypted fields of its documents.
        pending: the values to encrypt found so far.
        names: the document's own fields that hold names of keys, by key, as far as the command shows them.
    """

    def __init__(self, name: str, root: Node) -> None:
        self.name = name
        self.root = root
        self.pending: list[Pending] = []
        self.names: dict[str, str] = {}

    def refuse(self, what: str, path: str, node: Node | None = None) -> NoReturn:
        """Raise the error for an operator that cannot work on a path."""
        rule = None if node is None else node.rule
        how = "is encrypted" if rule is None else f'is encrypted by "{rule.algorithm}"'
        if rule is None and node is not None:
            how = "has encrypted parts"
        able = {
            "deterministic": "==, !=, in_() and not_in()",
            "indexed": "==, !=, in_() and not_in()",
            "range": "<, <=, >, >=, == and between()",
        }.get(rule.algorithm if rule is not None else "", "is_none() and exists()")
        raise UnsupportedOption(
            f"{what} cannot work on {self.name}.{path}, which {how}: the server sees no value; {able} can"
        )

    def step(self, node: Node, part: str) -> Node | None:
        """Return the encrypted fields behind one part of a path."""
        if part.isdigit() or part[:1] == "$":
            if node.each is not None:
                return node.each
            if part not in node.fields and node.values is None:
                # A list index, though the value may also be no list.
                return node
        found = node.fields.get(part)
        if found is None and node.each is not None:
            found = self.step(node.each, part)
        return found if found is not None else node.values

    def named(self, node: Node, name: str, path: str) -> Node | None:
        """Return the encrypted fields behind a name of a stored document.

        Raises:
            UnsupportedOption: it is a path to an encrypted field, which no document has as a name.
        """
        found = self.step(node, name)
        if found is None and "." in name:
            inner = self.find(node, name, "a name with dots", path)
            if inner is not None:
                self.refuse("a name with dots", path + name, inner)
        return found

    def find(self, node: Node | None, path: str, what: str = "a path", before: str = "") -> Node | None:
        """Return the encrypted fields behind a path, or None.

        Raises:
            UnsupportedOption: it leads into an encrypted value.
        """
        for part in path.split("."):
            if node is None:
                return None
            if node.rule is not None:
                self.refuse(what, before + path, node)
            node = self.step(node, part)
        return node if node is not None and node.is_sealed else None

    # Values.

    def store(self, value: Any, node: Node | None, path: str, what: str | None = None) -> Any:
        """Return a value with the values to encrypt in it.

        Args:
            value: an element's value.
            node: its encrypted fields.
            path: its path, for messages.
            what: the operator that compares it; None for a stored value.
        """
        if node is None or not node.is_sealed:
            return value
        if isinstance(value, tuple) and (value[0] in _NOTHING or is_encrypted(value)):
            return value
        item = [path, value]
        group = opened(item)
        if node.rule is not None:
            if group is not None:
                raise ValidationError(
                    f"expected a value that is no document and no array to encrypt, got one at $.{path}"
                )
            return self._sealed(value, node, path, what)
        if group is None:
            if node.each is not None and (node.each.rule is not None or not node.has_plain):
                # An element in place of a list, as operands and operators allow.
                return self.store(value, node.each, path, what)
            if not node.has_plain:
                self._refuse_form("a document", value, node, path, what)
            return value
        if group.kind == DOCUMENT and not node.takes_documents:
            self._refuse_form("a list", value, node, path, what)
        for inner in group.items:
            if group.kind == ARRAY:
                inner[1] = self.store(inner[1], node if node.each is None else node.each, path, what)
            else:
                part = self.named(node, inner[0], f"{path}.")
                inner[1] = self.store(inner[1], part, f"{path}.{inner[0]}", what)
        return group

    def _refuse_form(self, expected: str, value: Any, node: Node, path: str, what: str | None) -> NoReturn:
        """Raise the error for a value in place of a document or list with encrypted parts.

        It is unknown which of its values to encrypt, so they would be sent in the clear.
        """
        if what is not None:
            self.refuse(f"{what} with something else than {expected}", path, node)
        inner = next(name for name, _ in node.rules())
        raise ValidationError(
            f"expected {expected} at $.{path} of {self.name}, whose {inner} is encrypted, got a value of BSON type "
            f"{value.kind if isinstance(value, Group) else value[0]}"
        )

    def document(self, group: Group, node: Node | None) -> None:
        """Encrypt the values of a whole document."""
        if node is None:
            return
        for item in group.items:
            item[1] = self.store(item[1], self.named(node, item[0], ""), item[0])

    def _sealed(self, value: Any, node: Node, path: str, what: str | None) -> Pending:
        rule: Encrypted = node.rule  # type: ignore[assignment]  # its callers looked
        if what is not None and rule.algorithm not in ("deterministic", "indexed"):
            self.refuse(what, path, node)
        query = "equality" if what is not None and rule.algorithm == "indexed" else None
        return self.pend(value, rule, path, query)

    def pend(self, value: Any, rule: Encrypted, path: str, query: str | None) -> Pending:
        """Record a value to encrypt."""
        found = Pending(value, rule, self._key(rule, path), query)
        self.pending.append(found)
        return found

    def _key(self, rule: Encrypted, path: str) -> Any:
        if rule.key_field is not None:
            name = self.names.get(rule.key_field)
            if name is None:
                raise UnsupportedOption(
                    f"cannot tell the key of {self.name}.{path}: expected its name as text in {rule.key_field!r} of "
                    f"the document or the query, got none; add the condition {self.name}.{rule.key_field} == …"
                )
            return name
        key = rule.key
        if callable(key):
            key = key()
            check_key(key)
        return key

    def note_names(self, group: Group | None) -> None:
        """Record the texts that a document, or an equality query, has in its fields."""
        for item in items_of(group):
            text = text_of(item[1])
            if text is None and (inner := opened(item)) is not None and item[0][:1] != "$":
                text = text_of(inner.get("$eq")) if inner.kind == DOCUMENT else None
            if text is not None:
                self.names[item[0]] = text
            elif item[0] == "$and" and (parts := opened(item)) is not None:
                for part in parts.items:
                    self.note_names(opened(part))

    # Expressions.

    def bare(self, value: Any, node: Node | None) -> tuple[bool, Node | None]:
        """Return whether an expression is only a field's path, and the encrypted fields there."""
        text = text_of(value)
        if text is None or text[:1] != "$":
            return False, None
        path = _path_of_text(text)
        if path is None:
            return True, None
        if path == "":
            return True, node
        return True, self.find(node, path, f"the expression {text}")

    def check_expression(self, value: Any, node: Node | None, what: str) -> None:
        """Refuse an expression that computes with an encrypted field.

        Raises:
            UnsupportedOption: it does.
        """
        if node is None:
            return
        queue: list[Any] = [["", value]]
        for item in queue:
            text = text_of(item[1])
            if text is not None and item[0] != "$literal":
                named = item[0] in (*_NAMING, "field")
                path = text if named and text[:1] != "$" else _path_of_text(text)
                if path is not None and (path == "" or self.find(node, path, what) is not None):
                    self.refuse(what, path or "(whole documents)", self.find(node, path) if path else node)
                continue
            inner = opened(item)
            if inner is not None and item[0] in _NAMING:
                self._check_computed_name(item, inner, node, what)
            if inner is not None and item[0] != "$literal":
                queue += inner.items
            elif isinstance(item[1], tuple) and item[1][0] in (CODE, SCOPED):
                self.check_code(item[1][1].decode(errors="replace"), node, what)

    def _check_computed_name(self, item: list[Any], group: Group, node: Node, what: str) -> None:
        """Refuse to read or set a field with a computed name, unless the name is known to be another."""
        name = next((part for part in group.items if part[0] == "field"), item)
        if text_of(name[1]) is not None:
            return
        inner = opened(name)
        literal = None if inner is None else text_of(inner.get("$literal"))
        if literal is None or self.find(node, literal, what) is not None:
            self.refuse(f"{item[0]} with a computed name in {what}", literal or "(any field)", node)

    def check_code(self, code: str, node: Node | None, what: str) -> None:
        """Refuse a server-side program that names an encrypted field."""
        if node is None:
            return
        for path, part in node.rules():
            last = path.rpartition(".")[2] if path[-1:] not in "]*" else path.partition(".")[0]
            if re.search(rf"(?<![\w$]){re.escape(last)}(?![\w$])", code):
                self.refuse(what, path, part)


def _path_of_text(text: str) -> str | None:
    """Return the path that a text in an expression means; "" for the whole document, None for none."""
    if text[:2] == "$$":
        name, _, path = text[2:].partition(".")
        # Other variables hold values of expressions that are checked where they are written.
        return path if name in ("ROOT", "CURRENT") else None
    return text[1:] if text[:1] == "$" else None
