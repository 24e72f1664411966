"""Commands of one collection: the parts that hold document values, and the commands that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from mangonel.odm.encryption.elements import ARRAY, DOCUMENT, Group, items_of, opened, take_apart, text_of
from mangonel.odm.encryption.filters import encrypt_filter
from mangonel.odm.encryption.pipelines import check_sort, encrypt_pipeline, projected
from mangonel.odm.encryption.places import Places
from mangonel.odm.encryption.updates import encrypt_update
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.model.encrypted import QUERYABLE, Node

# Commands without document values.
_EMPTY = frozenset(
    {
        "abortTransaction",
        "buildInfo",
        "buildinfo",
        "collStats",
        "commitTransaction",
        "compact",
        "connectionStatus",
        "convertToCapped",
        "createSearchIndexes",
        "currentOp",
        "dbStats",
        "drop",
        "dropDatabase",
        "dropIndexes",
        "dropSearchIndex",
        "enableSharding",
        "endSessions",
        "getMore",
        "getParameter",
        "hello",
        "hostInfo",
        "isMaster",
        "ismaster",
        "killCursors",
        "killOp",
        "listCollections",
        "listDatabases",
        "listIndexes",
        "listSearchIndexes",
        "ping",
        "profile",
        "renameCollection",
        "serverStatus",
        "shardCollection",
        "updateSearchIndex",
        "validate",
    }
)

# Fields that every command may have in addition.
_ENVELOPE = frozenset(
    {"$clusterTime", "$readPreference", "comment", "lsid", "readConcern", "recoveryToken", "writeConcern"}
)


class Analysis:
    """Analyses the commands of a model's collection.

    Args:
        name: the model's name.
        collection: name of the model's collection.
        root: the encrypted fields of its documents.
        foreign: the encrypted fields of another collection.
    """

    def __init__(
        self, name: str, collection: str, root: Node | None, foreign: Callable[[str], Node | None]
    ) -> None:
        self.name = name
        self.collection = collection
        self._root = root
        self._foreign = foreign
        self.is_queryable = root is not None and root.is_queryable

    def needs_own_kind(self, group: Group) -> bool:
        """Whether a command needs features that only a collection of Queryable Encryption has."""
        return self.is_queryable and text_of(group.items[0][1]) == self.collection

    def look(self, command: bytes) -> tuple[Group, Places] | None:
        """Return a parsed command with the values to encrypt, or None if it does not change.

        Raises:
            UnsupportedOption: it needs information that an encrypted field does not reveal. Nothing was sent.
        """
        group = take_apart(command)
        if not group.items:
            return None
        places = self._look(group)
        return (group, places) if places is not None and places.pending else None

    def _look(self, group: Group) -> Places | None:
        name, value = group.items[0]
        if name in _EMPTY:
            return None
        if name == "explain":
            inner = group.group("explain")
            return None if inner is None else self._look(inner)
        collection = text_of(value)
        pipeline = group.group("pipeline")
        if collection is None and (name != "aggregate" or _is_change_stream(pipeline)):
            if name == "aggregate":
                # A stream of a whole database: its changes include this collection's documents.
                collection = self.collection
            elif name in _PARTS or _has_documents(group):
                self._refuse(name)
        own = self._root if collection == self.collection else None
        root = own if own is not None or collection is None else self._foreign(collection)
        places = Places(self.name, root or Node())
        look = _PARTS.get(name)
        if look is None:
            if root is None:
                return None
            self._refuse(name)
        if name == "aggregate":
            encrypt_pipeline(places, pipeline, root, self._foreign)
        elif pipeline is not None:
            encrypt_pipeline(
                places, pipeline, self._foreign(text_of(group.get("viewOn")) or ""), self._foreign
            )
        if name != "aggregate" and root is not None:
            look(places, group, root)
        if places.pending:
            _check_collation(self.name, group)
        return places

    def _refuse(self, name: str) -> NoReturn:
        raise UnsupportedOption(
            f"{name} cannot be sent through the collection of {self.name}, which has encrypted fields: the "
            "mapper cannot tell which of its values to encrypt; use connection().database()"
        )


def _check_collation(model: str, group: Group) -> None:
    """Refuse a collation: encrypted bytes are compared as they are, so a search for `a` would not find `A`."""
    if group.get("collation") is not None:
        raise UnsupportedOption(
            f"collation cannot work on encrypted fields of {model}: only equal values are found"
        )


def _is_change_stream(pipeline: Group | None) -> bool:
    first = opened(pipeline.items[0]) if pipeline is not None and pipeline.items else None
    return first is not None and first.get("$changeStream") is not None


def _has_documents(group: Group) -> bool:
    """Whether a command without a collection may hold document values."""
    return any(
        name not in _ENVELOPE and isinstance(value, tuple) and value[0] in (DOCUMENT, ARRAY)
        for name, value in group.items
    )


def _insert(places: Places, group: Group, root: Node) -> None:
    for item in items_of(group.group("documents")):
        document = opened(item)
        if document is not None:
            places.names = {}
            places.note_names(document)
            places.document(document, root)


def _update(places: Places, group: Group, root: Node) -> None:
    found = [opened(item) for item in items_of(group.group("updates"))]
    is_many = len(found) > 1 or any(update is not None and _is_true(update.get("multi")) for update in found)
    if is_many and root.is_queryable:
        raise UnsupportedOption(
            f"one command cannot update several documents of {places.name}: MongoDB changes one at a time in a "
            "collection of Queryable Encryption; save() them, or use the update() of a query"
        )
    for update in found:
        if update is not None:
            _one_update(places, update, root, "q", "u")


def _one_update(places: Places, update: Group, root: Node, query: str, change: str) -> None:
    places.names = {}
    condition = update.group(query)
    places.note_names(condition)
    before = len(places.pending)
    if encrypt_filter(places, condition, root):
        _check_collation(places.name, update)
    if _is_true(update.get("upsert")) and any(
        found.rule.algorithm in QUERYABLE for found in places.pending[before:]
    ):
        raise UnsupportedOption(
            f"upsert cannot store a value that a query of {places.name} compares with a field of Queryable Encryption; "
            "insert the document"
        )
    for item in update.items:
        if item[0] == change:
            encrypt_update(places, item, root, update.group("arrayFilters"))


def _is_true(value: object) -> bool:
    return isinstance(value, tuple) and any(value[1])


def _delete(places: Places, group: Group, root: Node) -> None:
    for item in items_of(group.group("deletes")):
        delete = opened(item)
        if delete is not None and encrypt_filter(places, delete.group("q"), root):
            _check_collation(places.name, delete)


def _find(places: Places, group: Group, root: Node) -> None:
    check_sort(places, group.group("sort"), root)
    for bound in ("min", "max"):
        for name, _ in items_of(group.group(bound)):
            found = places.find(root, name, bound)
            if found is not None:
                places.refuse(bound, name, found)
    projection = group.group("projection")
    if projection is not None:
        projected(places, projection, root, "a projection")
    encrypt_filter(places, group.group("filter"), root)


def _count(places: Places, group: Group, root: Node) -> None:
    encrypt_filter(places, group.group("query"), root)


def _distinct(places: Places, group: Group, root: Node) -> None:
    key = text_of(group.get("key")) or ""
    found = places.find(root, key, "distinct")
    if found is not None and not found.is_equal_findable:
        places.refuse("distinct", key, found)
    encrypt_filter(places, group.group("query"), root)


def _find_and_modify(places: Places, group: Group, root: Node) -> None:
    check_sort(places, group.group("sort"), root)
    fields = group.group("fields")
    if fields is not None:
        projected(places, fields, root, "a projection")
    if _is_true(group.get("new")) and root.is_queryable:
        raise UnsupportedOption(
            f"findAndModify cannot return a document of {places.name} as changed: in a collection of Queryable "
            "Encryption MongoDB returns it only as it was; use find_and_update(new=False), or save() the document"
        )
    _one_update(places, group, root, "query", "update")


def _create_indexes(places: Places, group: Group, root: Node) -> None:
    for item in items_of(group.group("indexes")):
        index = opened(item)
        if index is None:
            continue
        for name, kind in items_of(index.group("key")):
            found = places.find(root, name, "an index")
            is_plain = isinstance(kind, tuple) and text_of(kind) is None
            if found is None:
                continue
            expires = index.get("expireAfterSeconds") is not None
            if not is_plain or expires or not found.is_equal_findable:
                places.refuse("an index", name, found)
        encrypt_filter(places, index.group("partialFilterExpression"), root)


def _rules(places: Places, group: Group, root: Node) -> None:
    """Handle a validator; its schema describes the stored, encrypted values."""
    validator = group.group("validator")
    if validator is None:
        return
    others = Group([item for item in validator.items if item[0] != "$jsonSchema"])
    encrypt_filter(places, others, root)
    validator.items = [item for item in validator.items if item[0] == "$jsonSchema"] + others.items


_PARTS: dict[str, Callable[[Places, Group, Node], None]] = {
    "insert": _insert,
    "update": _update,
    "delete": _delete,
    "find": _find,
    "count": _count,
    "distinct": _distinct,
    "findAndModify": _find_and_modify,
    "createIndexes": _create_indexes,
    "create": _rules,
    "collMod": _rules,
    "aggregate": _find,
}
