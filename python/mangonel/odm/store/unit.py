"""`db.unit()`: documents of several models that are stored together or not at all. Spec: transactions.

The block collects saves and deletions. Its end sends them in one transaction, in as few commands as references
allow: a document is saved after those that it refers to, and deleted before them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mangonel import _core
from mangonel.errors import PyMongoError
from mangonel.odm._registry import is_document, makers
from mangonel.odm.connections.context import session_for
from mangonel.odm.connections.place import connection_of, place_of
from mangonel.odm.connections.touched import Touched
from mangonel.odm.connections.transactions import Transaction, is_transient, run_flow
from mangonel.odm.errors import OdmError, ValidationError
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.convert import DELETED, NEW
from mangonel.odm.model.held_references import documents_of, references_in
from mangonel.odm.model.refs import stored_id
from mangonel.odm.query.targets import ids_in


class Unit(Transaction):
    """Documents that are saved and deleted as one unit at the end of the block, for `with` or `async with`.

    If that fails, nothing is stored, and every document that the unit or the block touched gets its former state back.
    A saved document may refer to stored documents and to those of the unit, but to no other new one.
    After a transient failure, such as an election or another transaction's write of the same document, it is sent again
    for up to 120 s. Commands that the block itself sends, such as a query's update, join the same transaction; then the
    unit is not sent again, since the block cannot run again.

    Example:
        >>> with db.unit() as unit:
        ...     unit.save(User(name="Max"), Post(title="Tea"))
        >>> User.find(User.name == "Max").exists(), Post.find(Post.title == "Tea").exists()
        (True, True)
    """

    def __init__(self, connection: Any, options: dict[str, Any]) -> None:
        super().__init__(connection, options)
        # By identity: different documents may be equal.
        self._saved: dict[int, Any] = {}
        self._deleted: dict[int, Any] = {}

    def save(self, *documents: Any) -> None:
        """Save documents when the block ends: new ones are inserted, changes are sent as the smallest updates.

        Args:
            documents: of any models of this deployment; a document that is named twice is saved once.

        Raises:
            TypeError: one is no document.
            OdmError: the block has ended or not begun, or the document is deleted by the same unit. At the end of the
                block: it refers to a new document that the unit does not save.

        Example:
            >>> with db.unit() as unit:
            ...     user.age = 40
            ...     unit.save(user)
        """
        self._collect(documents, self._saved, self._deleted)

    def delete(self, *documents: Any) -> None:
        """Delete documents when the block ends, after all saves, following the delete rules of references to them.

        Args:
            documents: of any models of this deployment.

        Raises:
            TypeError: one is no document.
            OdmError: the block has ended or not begun, or the document is saved by the same unit.

        Example:
            >>> with db.unit() as unit:
            ...     unit.delete(post, user)
        """
        self._collect(documents, self._deleted, self._saved)

    def _collect(self, documents: Iterable[Any], into: dict[int, Any], others: dict[int, Any]) -> None:
        if self._session is None:
            raise OdmError("expected a unit inside its block, got one outside: use `with db.unit() as unit`")
        for document in documents:
            if not is_document(document):
                raise TypeError(f"expected documents, got {document!r}")
            if connection_of(document).clients is not self._connection.clients:
                raise OdmError(
                    f"expected documents of the unit's deployment, got a {type(document).__name__} of another; use a "
                    "unit for each"
                )
            if id(document) in others:
                raise OdmError(f"cannot save and delete the same {type(document).__name__} in one unit")
            into[id(document)] = document

    async def _exit_flow(self, kind: Any, port: Any) -> None:
        if kind is None and self._is_whole():
            await self._run_flow(port)
            return
        if kind is None:
            try:
                await self._store_flow(port)
            except BaseException as error:
                if self._outer is None and is_transient(error):
                    error.add_note(
                        "the unit was not sent again, since its block has sent commands itself: use db.run(function), "
                        "whose function runs again"
                    )
                await self._end_flow(type(error), port)
                raise
        await self._end_flow(kind, port)

    def _is_whole(self) -> bool:
        """Whether the unit has sent nothing outside of its collected writes, so that it can be sent again."""
        return self._outer is None and not self._is_doomed and self._session._handle.is_starting

    def _attempt(self) -> Transaction:
        made = Transaction(self._connection, self._options)
        made._touched = Touched(self._touched)
        return made

    async def _run_flow(self, port: Any) -> None:
        """Send the collected writes in their own transaction, and again after transient failures."""
        self._leave()
        is_stored = False
        try:
            # Nothing was sent in this transaction, so ending it sends nothing.
            await port.call(self._session.abort_transaction)
            await run_flow(
                self._attempt,
                lambda: port.flow(self._store_flow(port)),
                self._connection.clients.get(port.is_async),
            )
            is_stored = True
        finally:
            if not is_stored:
                self._touched.put_back()
            self._touched.release()
            session, self._session = self._session, None
            if self._owns_session:
                await port.call(session.end_session)

    async def _end_flow(self, kind: Any, port: Any) -> None:
        try:
            await super()._exit_flow(kind, port)
        finally:
            self._session = None

    async def _store_flow(self, port: Any) -> None:
        """Send the collected writes."""
        session = session_for(self._connection)
        saved = list(self._saved.values())
        try:
            for group in _groups(saved):
                place = place_of(group[0], port.is_async, session)
                if len(group) == 1:
                    await group[0].__store__.save_flow(group[0], place, True, False, None)
                else:
                    await group[0].__store__.save_all_flow(place, group, True)
        except PyMongoError as error:
            if hasattr(error, "not_stored"):
                # Documents stored before the error are rolled back.
                error.not_stored = saved  # the mapper's addition
            raise
        _check_targets(saved)
        for group in reversed(_groups(list(self._deleted.values()))):
            for document in group:
                await document.__store__.delete_flow(document, place_of(document, port.is_async, session))


makers["unit"] = Unit


def _groups(documents: list[Any]) -> list[list[Any]]:
    """Return the documents in groups of one collection each: a group's references lead to earlier groups.

    Documents that refer to each other in a circle keep the given order.
    """
    known = {_name(document.__class__, document.id): document for document in documents}
    levels: dict[int, int] = {}
    for document in documents:
        # Without recursion: a chain of references may be long.
        stack: list[tuple[Any, bool]] = [(document, False)]
        is_open: set[int] = set()
        while stack:
            current, is_left = stack.pop()
            if is_left:
                below = [levels[id(one)] for one in _targets(current, known) if id(one) in levels]
                levels[id(current)] = max(below, default=-1) + 1
            elif id(current) not in levels and id(current) not in is_open:
                is_open.add(id(current))
                stack.append((current, True))
                stack += [(one, False) for one in _targets(current, known)]
    groups: dict[Any, list[Any]] = {}
    for document in sorted(documents, key=lambda document: levels[id(document)]):
        where = (levels[id(document)], connection_of(document), document.__collection_name__())
        groups.setdefault(where, []).append(document)
    return list(groups.values())


def _check_targets(saved: list[Any]) -> None:
    """Refuse references of saved documents to documents that were never stored.

    Raises:
        OdmError: there is one.
    """
    stored = {_name(document.__class__, document.id) for document in saved}
    for document in saved:
        for name, reference in references_in(document):
            for target in documents_of(reference):
                model = target.__class__
                is_new = _core.odm_flags(target) & (NEW | DELETED) == NEW
                if is_new and _name(model, target.id) not in stored:
                    raise OdmError(
                        f"expected a stored document for {document.__class__.__name__}.{name}, got a new "
                        f"{model.__name__}, {target.id!r}: save it in the unit too, or before"
                    )


def _targets(document: Any, known: dict[Any, Any]) -> list[Any]:
    """Return the documents of the unit that a document refers to."""
    found: list[Any] = []
    loaded = _core.odm_loaded(document)
    for name, field in document.__plan__.fields.items():
        # Only fields with a target model: an `AnyRef` names its target itself.
        if name not in loaded or not isinstance(field.target, type):
            continue
        try:
            ids = ids_in(held(document, name))
        except ValidationError:
            # A stored list that does not load must not prevent a deletion; the delete rules read it on the server.
            continue
        names = [_name(field.target, id) for id in ids]
        found += [known[where] for where in names if where in known]
    return [one for one in found if one is not document]


def _name(model: Any, id: Any) -> tuple[str, str]:
    """Return a key that identifies a document across all collections; an id may have no hash."""
    return model.__collection_name__(), repr(stored_id(id))
