"""Mixins for models: times of creation and change, soft deletion, recorded changes."""

from __future__ import annotations

import copy
import datetime as dt
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from mangonel import _core
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.convert import SAVING
from mangonel.odm.model.fields import now
from mangonel.odm.query.query import Query
from mangonel.odm.query.stamped import update_for
from mangonel.odm.store.document import Document


def _now_of(model: Any) -> dt.datetime:
    """Return the current time in the model's form."""
    return now() if model.__tz_aware__ else now().replace(tzinfo=None)


class Timestamps(Document):
    """Adds `created_at` and `updated_at`, set by every save, bulk save and query update.

    Example:
        >>> class Post(Timestamps):
        ...     title: str
    """

    __abstract__ = True

    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None

    @classmethod
    def __stamps__(cls) -> dict[tuple[str, bool], Callable[[], Any]]:
        created, updated = cls.__fields__["created_at"], cls.__fields__["updated_at"]
        return {
            **super().__stamps__(),
            (created.key or "created_at", False): partial(_now_of, cls),
            (updated.key or "updated_at", True): partial(_now_of, cls),
        }

    def __stamp__(self, is_new: bool) -> None:
        super().__stamp__(is_new)
        moment = _now_of(self)
        if is_new and self.created_at is None:
            self.created_at = moment
        self.updated_at = moment

    def touch(self) -> Self:
        """Set `updated_at` to the current time; `save()` stores it."""
        self.updated_at = _now_of(self)
        return self


# The last stored changes and those about to be stored, by the address of the document, while it exists.
_kept: dict[int, tuple[weakref.ref[Any], dict[str, Any], dict[str, Any]]] = {}


class KeepsChanges(Document):
    """Adds `previous_changes()`, which returns the fields that the last save or insert stored.

    Example:
        >>> class Price(KeepsChanges):  # a Document
        ...     cents: int
        >>> price = Price(cents=1).save()
        >>> price.cents = 2
        >>> price.save().previous_changes()
        {'cents': (1, 2)}
    """

    __abstract__ = True
    __keeps_changes__ = True

    def previous_changes(self) -> dict[str, tuple[Any, Any]]:
        """Return the fields of the last save, each with its old and its new value."""
        found = _kept.get(id(self))
        return dict(found[1]) if found is not None else {}

    def __note_changes__(self) -> None:
        if _core.odm_flags(self) & SAVING:
            # Keep the notes of the save under way; this second save is about to be refused.
            return
        made = {name: (None, held(self, name)) for name in self.__fields__} if self.is_new else self.changes()
        key = id(self)
        known = _kept.get(key)
        former = known[1] if known is not None else {}
        # Copies: this save does not store later changes of a list.
        _kept[key] = (weakref.ref(self, lambda _: _kept.pop(key, None)), former, copy.deepcopy(made))

    def __saved_changes__(self, *put_back: Any) -> Any:
        if not put_back:
            return _kept.get(id(self))
        if put_back[0] is None:
            _kept.pop(id(self), None)
        else:
            _kept[id(self)] = put_back[0]
        return None

    def __keep_changes__(self) -> None:
        found = _kept.get(id(self))
        if found is not None:
            _kept[id(self)] = (found[0], found[2], {})


def _mark_of(model: Any) -> str:
    """Return the key of a model's deletion mark."""
    return model.__plan__.fields["deleted_at"].key


def _not_deleted(query: Query[Any]) -> Query[Any]:
    return query.find({_mark_of(query._model): None})


class SoftDelete(Document):
    """Makes `delete()` only set `deleted_at`. Queries leave such documents out, except `unscoped()`.

    Other changes of the instance stay unsaved. The hooks of `delete` run, not those of `save`.

    Example:
        >>> class Note(SoftDelete):
        ...     text: str
        >>> note.delete()
        >>> Note.find().exists(), Note.unscoped().exists()
        (False, True)
    """

    __abstract__ = True
    __default_scope__ = staticmethod(_not_deleted)

    deleted_at: dt.datetime | None = None

    @classmethod
    def __soft_delete__(cls) -> bool:
        return True

    @classmethod
    def __soft_delete_update__(cls) -> dict[str, Any]:
        return update_for(cls, [{"$set": {_mark_of(cls): _now_of(cls)}}])

    @property
    def is_deleted(self) -> bool:
        """Whether the document is marked as deleted."""
        return self.deleted_at is not None

    def restore(self) -> Self:
        """Clear the mark of deletion; `save()` stores that."""
        self.deleted_at = None
        return self

    @classmethod
    def deleted(cls) -> Query[Self]:
        """Return the query for deleted documents."""
        return cls.unscoped({_mark_of(cls): {"$ne": None}})
