"""Documents as Python objects: models of plain annotations, decoded straight into slots, saved by what changed.

    >>> from mangonel.odm import Document, connect
    >>> class User(Document):
    ...     name: str
    ...     age: int = 0
    >>> db = connect("mongodb://localhost/shop")
    >>> ada = User(name="Ada", age=36).save()
    >>> [user.name for user in User.find(User.age > 30)]
    ['Ada']

One model serves both faces: `save()` blocks, `await asave()` does not; queries are read by `for`, `async for` and
`await`.
"""

from __future__ import annotations

from mangonel.bson import ObjectId
from mangonel.odm._conditions import (
    all_,
    between,
    contains,
    each,
    elem,
    endswith,
    exists,
    expr,
    has_type,
    iexact,
    in_,
    json_schema,
    not_in,
    regex,
    size,
    startswith,
    text,
    where_js,
)
from mangonel.odm._connection import Connection, connect, connection
from mangonel.odm._documents import Document
from mangonel.odm._expressions import Expr, and_, nor, not_, or_
from mangonel.odm._fields import Custom, Index, Indexed, Sequence, Version, field, many
from mangonel.odm._files import File
from mangonel.odm._geo import (
    LineString,
    MultiLineString,
    MultiPoint,
    MultiPolygon,
    Point,
    Polygon,
)
from mangonel.odm._hooks import after, before
from mangonel.odm._identity import identity_map
from mangonel.odm._mixins import SoftDelete, Timestamps
from mangonel.odm._model import Embedded
from mangonel.odm._orders import asc, desc
from mangonel.odm._pages import Page, Pages
from mangonel.odm._paths import F, Mapped, Path
from mangonel.odm._query import Query
from mangonel.odm._refs import Many, Ref, Refs
from mangonel.odm._schema import IndexPlan
from mangonel.odm._scope import scope
from mangonel.odm._updates import (
    add_to_set,
    bit,
    current_date,
    inc,
    max_,
    min_,
    mul,
    pop,
    pull,
    pull_where,
    push,
    rename,
    set_,
    set_on_insert,
    unset,
)
from mangonel.odm._watch import Changes, Event
from mangonel.odm.errors import (
    DeleteDenied,
    DocumentNotFound,
    MultipleDocuments,
    NotConnected,
    NotLoaded,
    OdmError,
    StaleDocument,
    ValidationError,
)

__all__ = [
    "Changes",
    "Connection",
    "Custom",
    "DeleteDenied",
    "Document",
    "DocumentNotFound",
    "Embedded",
    "Event",
    "Expr",
    "F",
    "File",
    "Index",
    "IndexPlan",
    "Indexed",
    "LineString",
    "Many",
    "Mapped",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "MultipleDocuments",
    "NotConnected",
    "NotLoaded",
    "ObjectId",
    "OdmError",
    "Page",
    "Pages",
    "Path",
    "Point",
    "Polygon",
    "Query",
    "Ref",
    "Refs",
    "Sequence",
    "SoftDelete",
    "StaleDocument",
    "Timestamps",
    "ValidationError",
    "Version",
    "add_to_set",
    "after",
    "all_",
    "and_",
    "asc",
    "before",
    "between",
    "bit",
    "connect",
    "connection",
    "contains",
    "current_date",
    "desc",
    "each",
    "elem",
    "endswith",
    "exists",
    "expr",
    "field",
    "has_type",
    "identity_map",
    "iexact",
    "in_",
    "inc",
    "json_schema",
    "many",
    "max_",
    "min_",
    "mul",
    "nor",
    "not_",
    "not_in",
    "or_",
    "pop",
    "pull",
    "pull_where",
    "push",
    "regex",
    "rename",
    "scope",
    "set_",
    "set_on_insert",
    "size",
    "startswith",
    "text",
    "unset",
    "where_js",
]  # fmt: skip
