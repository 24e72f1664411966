"""References: `Ref` to one document and `Refs` to several. Stored as plain ids; `many` has their inverse.

A loaded reference knows its siblings from the same query, so fetching one fetches all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mangonel._arguments import expect
from mangonel._core import odm_finished
from mangonel.bson import ObjectId
from mangonel.odm._registry import is_document, is_embedded_instance, is_instance, is_model
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import RefsTwins, RefTwins
from mangonel.odm.errors import DocumentNotFound, ValidationError
from mangonel.odm.model.advised import note_fetch
from mangonel.odm.model.annotations import evaluate, unwrap
from mangonel.odm.model.fetched import Fetched, key_of_id

T = TypeVar("T")


class RefMaker:
    """Makes the references of one field; the core calls it at first access, and groups ids by it."""

    __slots__ = ("_target", "field", "is_list", "owner", "target_name")

    def __init__(self, target: Any, owner: Any, field: Any, *, is_list: bool) -> None:
        self._target = target
        self.owner = owner
        self.field = field
        self.is_list = is_list
        self.target_name = target if isinstance(target, str) else getattr(target, "__name__", "Any")

    @property
    def target(self) -> Any:
        """The target model of the references."""
        if not isinstance(self._target, type):
            self._target = unwrap(self._target, [], self.owner)
        return self._target

    def id_type(self) -> Any:
        """The annotation of the target's id, or None if any type fits."""
        try:
            target = self.target
        except TypeError:
            return None
        if not is_model(target):
            return None
        for info in target.__fields__.values():
            if info.name == "id" or info.key == "_id":
                is_text = isinstance(info.annotation, str)
                return evaluate(info.annotation, info.owner) if is_text else info.annotation
        return None

    def check(self, document: Any) -> None:
        """Refuse a document of another model than the target.

        Raises:
            ValidationError: it belongs to another model.
        """
        target = self.target
        if is_model(target) and not isinstance(document, target):
            raise ValidationError(f"expected a {target.__name__}, got {type(document).__name__}")

    def empty(self) -> Any:
        """Return a new, empty set of references."""
        return Refs([], self)

    def __call__(self, value: Any, siblings: Any, attribute: Any) -> Any:
        if self.is_list:
            return self._refs(value, siblings)
        if isinstance(value, Ref):
            return self._adopted(value)
        if is_instance(value) and not self._is_id(value):
            self.check(value)
            made: Ref[Any] = Ref(value.id, self)
            made._loaded = value
            return made
        return Ref(value, self, siblings)

    def _is_id(self, value: Any) -> bool:
        """Whether an instance is an id of a model whose id has several fields."""
        kind = self.id_type() if is_embedded_instance(value) else None
        return isinstance(kind, type) and isinstance(value, kind)

    def _adopted(self, given: Ref[Any]) -> Ref[Any]:
        """Assign a reference set by the program to this field, if it belonged to none."""
        if given._loaded is not None:
            self.check(given._loaded)
        if given._maker is None:
            made: Ref[Any] = Ref(given.id, self)
            made._loaded = given._loaded
            return made
        self._check_target(given._maker)
        return given

    def _refs(self, value: Any, siblings: Any) -> Refs[Any]:
        if isinstance(value, Refs):
            if value._maker is not None:
                self._check_target(value._maker)
                return value
            made: Refs[Any] = Refs(list(value.ids), self)
            for document in value._loaded.values():
                self.check(document)
            made._loaded = value._loaded
            return made
        return Refs(value, self, siblings)

    def _check_target(self, other: RefMaker) -> None:
        if other is self:
            return
        mine, its = self.target, other.target
        if is_model(mine) and is_model(its) and not issubclass(its, mine):
            raise ValidationError(f"expected a {mine.__name__}, got a reference to {its.__name__}")


class Ref(Generic[T], RefTwins[T]):
    """A reference to one document.

    References with the same id are equal. `get()` and `aget()` return the document, and fetch the references of all
    documents from the same query with a single query.

    Args:
        document: the target: a document or an id.
    """

    __slots__ = ("_loaded", "_maker", "_siblings", "id")
    __is_ref__ = True
    id: Any

    def __init__(self, document: Any, maker: RefMaker | None = None, siblings: Any = None) -> None:
        self._loaded: Any = None
        if is_document(document):
            self._loaded = document
            document = document.id
        self.id = document
        self._maker = maker
        self._siblings = siblings

    # The conversions below exist for type checkers: a reference may be set to a document or an id.
    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any) -> Any: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> Ref[T]: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: Ref[T] | T | Any) -> None: ...

    @property
    def is_loaded(self) -> bool:
        """Whether the document was fetched, so that `value` does not raise."""
        return self._loaded is not None or self._known() is not None

    @property
    def value(self) -> T:
        """The document, without fetching it.

        Raises:
            DocumentNotFound: it was not fetched: use `get()`, `aget()` or `include()`. Or `include()` found none; the
                message says why.
        """
        found: T = self._loaded
        if found is None:
            found = self._known()
            if found is None:
                raise DocumentNotFound(
                    self._why_absent() or f"{self!r} was not fetched; use get(), aget() or include()"
                )
        return found

    @property
    def is_missing(self) -> bool:
        """Whether `include()` found no document: it does not exist, is marked as deleted, or was left out."""
        return self._why_absent() is not None

    def _fetched(self) -> Fetched | None:
        return self._siblings.loaded.get(self._maker) if self._siblings is not None else None

    def _known(self) -> Any:
        if self._loaded is None:
            fetched = self._fetched()
            if fetched is not None:
                self._loaded = fetched.get(key_of_id(self.id))
        return self._loaded

    def _why_absent(self) -> str | None:
        if self._loaded is not None:
            return None
        fetched = self._fetched()
        reason = None if fetched is None else fetched.absent.get(key_of_id(self.id))
        return None if reason is None else f"{self!r} {reason}"

    @terminal
    def get(self) -> T:
        """Return the document; if needed, fetch it together with the documents of its siblings.

        Raises:
            DocumentNotFound: the document does not exist.
        """
        found = self._known()
        if found is not None and not IS_ASYNC:
            return found
        request = _request(self, IS_ASYNC)
        return request.port.flow(self._fetch_flow(request))

    def _target(self) -> Any:
        if self._maker is None:
            raise TypeError(f"{self!r} belongs to no field yet; set it, or use Model.get(ref.id)")
        return self._maker.target

    async def _fetch_flow(self, request: Any) -> Any:
        found = self._known()
        if found is not None:
            return found
        absent = self._why_absent()
        if absent is not None:
            raise DocumentNotFound(absent)
        if self._maker is not None:
            # An element of a list or a map belongs to no field.
            name = "…" if self._maker.field is None else self._maker.field.name
            note_fetch(request, self._maker.owner, name, "get()")
        wanted = [self.id]
        if self._siblings is not None and self._maker is not None:
            wanted += flat_ids(self._siblings.ids(self._maker))
        documents = await fetch_flow(request, wanted)
        if self._siblings is not None:
            keep(self._siblings, self._maker, documents)
        for document in documents:
            if document.id == self.id:
                self._loaded = document
        if self._loaded is None:
            raise DocumentNotFound(f"no {self._target().__name__} has the _id {self.id!r}")
        return self._loaded

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Ref):
            return bool(self.id == other.id)
        if is_document(other):
            # A reference that is not assigned to a field yet knows no model.
            is_kind = self._maker is None or isinstance(other, self._maker.target)
            return is_kind and bool(self.id == other.id)  # type: ignore[attr-defined]
        return NotImplemented

    def __lt__(self, other: object) -> bool:
        return bool(self.id < other.id) if isinstance(other, Ref) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        name = self._maker.target_name if self._maker is not None else "?"
        return f"Ref[{name}]({self.id!r})"

    def __reduce__(self) -> Any:
        return Ref, (self.id,)


class Refs(Generic[T], RefsTwins[T]):
    """An ordered set of references to documents. Iterating over it gives `Ref`s; `ids` has the stored ids."""

    __slots__ = ("_loaded", "_maker", "_siblings", "ids")
    __is_refs__ = True
    ids: list[Any]

    def __init__(
        self, documents: Iterable[Any] = (), maker: RefMaker | None = None, siblings: Any = None
    ) -> None:
        self._loaded: dict[Any, Any] = {}
        self._maker = maker
        self._siblings = siblings
        # The core's list is kept without a copy: nothing else refers to it.
        self.ids = documents if isinstance(documents, list) and not _has_documents(documents) else []
        if self.ids is not documents:
            expect("documents", documents, Iterable, "documents or ids")
            for document in documents.ids if isinstance(documents, Refs) else documents:
                self.add(document)

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any) -> Any: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> Refs[T]: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: Refs[T] | Iterable[T] | Iterable[Any]) -> None: ...

    def add(self, *documents: T | Any) -> None:
        """Add references to these documents; saving sends `$addToSet`.

        Args:
            documents: documents or ids.

        Example:
            >>> post.readers.add(user)
            >>> len(post.save().readers)
            1
        """
        for document in documents:
            if self._maker is not None and is_instance(document) and not self._maker._is_id(document):
                self._maker.check(document)
            id = _id_of(document, self._loaded)
            if id not in self.ids:
                self.ids.append(id)

    def remove(self, *documents: T | Any) -> None:
        """Remove the references to these documents, if there are any; saving sends `$pullAll`.

        Args:
            documents: documents or ids.

        Example:
            >>> post.readers.add(user)
            >>> post.readers.remove(user)
            >>> len(post.readers)
            0
        """
        for document in documents:
            id = _id_of(document, {})
            if id in self.ids:
                self.ids.remove(id)

    def clear(self) -> None:
        """Remove all references."""
        self.ids.clear()

    @terminal
    def all(self) -> list[T]:
        """Return the documents in order; fetch those that are needed. Documents that do not exist are left out.

        After `include()` nothing is sent, since it has fetched them.
        """
        if self._is_complete():
            found_before: Any = self._chosen()
            return odm_finished(found_before) if IS_ASYNC else found_before  # type: ignore[return-value]  # awaited
        request = _request(self, IS_ASYNC)
        return request.port.flow(self._fetch_flow(request))

    @property
    def is_loaded(self) -> bool:
        """Whether all documents were fetched, so that `values` does not raise."""
        fetched = self._fetched()
        if fetched is not None and fetched.window is not None:
            return self._is_complete()
        return all(self._known(id) is not None for id in self.ids)

    @property
    def missing(self) -> list[Any]:
        """The ids for which `include()` found no document: it does not exist, is marked as deleted, or was left out."""
        fetched = self._fetched()
        return [] if fetched is None else [id for id in self.ids if self._why_absent(id) is not None]

    @property
    def values(self) -> list[T]:
        """The documents, without fetching them.

        After `include(related(…))` they are those that its query chose.

        Raises:
            DocumentNotFound: one was not fetched: use `all()`, `aall()` or `include()`. Or `include()` found none:
                `missing` has such ids, and `all()` leaves them out.
        """
        fetched = self._fetched()
        if fetched is not None and fetched.window is not None and self._is_complete():
            return self._chosen()
        found = [self._known(id) for id in self.ids]
        if any(document is None for document in found):
            for id in self.ids:
                absent = self._why_absent(id)
                if absent is not None:
                    raise DocumentNotFound(f"{self!r}: {id!r} {absent}")
            raise DocumentNotFound(f"{self!r} were not all fetched; use all(), aall() or include()")
        return found

    def _fetched(self) -> Fetched | None:
        return self._siblings.loaded.get(self._maker) if self._siblings is not None else None

    def _known(self, id: Any) -> Any:
        key = key_of_id(id)
        found = self._loaded.get(key)
        if found is None:
            fetched = self._fetched()
            if fetched is not None:
                found = fetched.get(key)
        return found

    def _why_absent(self, id: Any) -> str | None:
        fetched, key = self._fetched(), key_of_id(id)
        return None if fetched is None or key in self._loaded else fetched.absent.get(key)

    def _is_complete(self) -> bool:
        """Whether every document was fetched, or found to be missing."""
        return all(self._known(id) is not None or self._why_absent(id) is not None for id in self.ids)

    def _chosen(self) -> list[Any]:
        """Return the documents that `include()` fetched, and those that were added since."""
        fetched = self._fetched()
        if fetched is not None and fetched.window is not None:
            added = [self._loaded[key] for key in map(key_of_id, self.ids) if key in self._loaded]
            return [*fetched.chosen(self.ids), *added]
        return [document for document in (self._known(id) for id in self.ids) if document is not None]

    def _target(self) -> Any:
        if self._maker is None:
            raise TypeError("these references belong to no field yet; set them first")
        return self._maker.target

    async def _fetch_flow(self, request: Any) -> list[Any]:
        missing = [id for id in self.ids if self._known(id) is None]
        if missing:
            if self._siblings is not None and self._maker is not None:
                missing += flat_ids(self._siblings.ids(self._maker))
            documents = await fetch_flow(request, missing)
            if self._siblings is not None and self._maker is not None:
                keep(self._siblings, self._maker, documents)
            else:
                self._loaded.update({key_of_id(document.id): document for document in documents})
        return [document for document in (self._known(id) for id in self.ids) if document is not None]

    def __iter__(self) -> Iterator[Ref[T]]:
        for id in self.ids:
            made: Ref[T] = Ref(id, self._maker, self._siblings)
            made._loaded = self._loaded.get(key_of_id(id))
            yield made

    @overload
    def __getitem__(self, index: int) -> Ref[T]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ref[T]]: ...
    def __getitem__(self, index: int | slice) -> Ref[T] | list[Ref[T]]:
        """Return the reference at an index, or those of a slice.

        Example:
            >>> post.readers.add(user)
            >>> post.readers[0].id == user.id
            True
        """
        return list(self)[index]

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, document: object) -> bool:
        return _id_of(document, {}) in self.ids

    def __eq__(self, other: object) -> bool:
        return self.ids == other.ids if isinstance(other, Refs) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # how Python says that a list cannot be hashed

    def __repr__(self) -> str:
        name = self._maker.target_name if self._maker is not None else "?"
        return f"Refs[{name}]({self.ids!r})"

    def __reduce__(self) -> Any:
        return Refs, (list(self.ids),)


def _has_documents(values: Iterable[Any]) -> bool:
    return any(is_document(value) or isinstance(value, Ref) for value in values)


def _id_of(document: Any, loaded: dict[Any, Any]) -> Any:
    if isinstance(document, Ref):
        return document.id
    if is_document(document):
        loaded[key_of_id(document.id)] = document
        return document.id
    return document


def stored_id(id: Any) -> Any:
    """Return an id in the form for queries: an embedded document becomes a dict."""
    return dict(id.to_bson()) if is_embedded_instance(id) else id


def flat_ids(found: Iterable[Any]) -> list[Any]:
    """Return all ids in the values of siblings: ids, lists of ids, references, None."""
    ids: list[Any] = []
    for value in found:
        if isinstance(value, Refs):
            ids += value.ids
        elif isinstance(value, Ref):
            ids.append(value.id)
        elif isinstance(value, list):
            ids += value
        elif value is not None:
            ids.append(value)
    return ids


def _request(refs: Ref[Any] | Refs[Any], is_async: bool) -> Any:
    """Return the request for the target's documents, in the reference's database."""
    origin = refs._siblings.origin if refs._siblings is not None else None
    return refs._target().find()._from(origin)._request("all", is_async)


def keep(siblings: Any, maker: Any, documents: Iterable[Any]) -> None:
    """Keep documents that were fetched for the references of one field."""
    fetched = siblings.loaded.get(maker)
    if fetched is None:
        fetched = siblings.loaded[maker] = Fetched()
    fetched.update({key_of_id(document.id): document for document in documents})


# Types of ids with the same form in the database and in programs.
_PLAIN = frozenset((ObjectId, int, str))


async def fetch_flow(request: Any, ids: Iterable[Any]) -> list[Any]:
    """Fetch documents of a query by id, each once, in as few steps as possible."""
    ids = list(ids)
    if _PLAIN.issuperset(map(type, ids)):
        wanted = list(dict.fromkeys(ids))
    else:
        wanted = list({key_of_id(id): stored_id(id) for id in ids}.values())
    documents: list[Any] = []
    # An id takes about 20 bytes of the command, which is limited to 16 MiB.
    for start in range(0, len(wanted), 50_000):
        query = request.query.find({"_id": {"$in": wanted[start : start + 50_000]}})
        documents += await query._all_flow(request.of(query, "all"))
    return documents
