"""Documents as Python objects: models from plain annotations, decoded into slots, saved by their changes.

    >>> from mangonel.odm import Document, connect
    >>> class User(Document):
    ...     name: str
    ...     age: int = 0
    >>> db = connect("mongodb://localhost/shop")
    >>> ada = User(name="Ada", age=36).save()
    >>> [user.name for user in User.find(User.age > 30)]
    ['Ada']

One model serves both faces: `save()` blocks, `await asave()` does not; read queries with `for`, `async for` or `await`.
"""

from __future__ import annotations

from mangonel.bson import ObjectId
from mangonel.odm._registry import documents
from mangonel.odm.connections.connection import Connection, connect, connection
from mangonel.odm.connections.counted import count_commands
from mangonel.odm.connections.identity import identity_map
from mangonel.odm.connections.tenants import all_tenants, current_tenant, tenant
from mangonel.odm.encryption.maps import encrypted_fields_map, schema_map
from mangonel.odm.errors import (
    DanglingReference,
    DeleteDenied,
    DocumentNotFound,
    MultipleDocuments,
    NotConnected,
    NoTenant,
    NotFetched,
    NotLoaded,
    OdmError,
    ParallelSaveError,
    StaleDocument,
    TooManyCommands,
    UnsupportedOption,
    ValidationError,
    WrongTenant,
)
from mangonel.odm.expressions.computed import Computed, computed
from mangonel.odm.expressions.conditions import (
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
    some,
    startswith,
    text,
    where_js,
)
from mangonel.odm.expressions.expr import Expr, and_, nor, not_, or_
from mangonel.odm.expressions.geo import (
    LineString,
    MultiLineString,
    MultiPoint,
    MultiPolygon,
    Point,
    Polygon,
)
from mangonel.odm.expressions.named import by_name
from mangonel.odm.expressions.orders import asc, desc
from mangonel.odm.expressions.paths import F, Mapped, Path
from mangonel.odm.expressions.pipeline import Pipeline
from mangonel.odm.expressions.updates import (
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
from mangonel.odm.model.any_ref import AnyRef
from mangonel.odm.model.base import Embedded
from mangonel.odm.model.belongs_to import BelongsTo, ref_of
from mangonel.odm.model.embedded_in import embedded_in
from mangonel.odm.model.encrypted import Encrypted
from mangonel.odm.model.fields import (
    Custom,
    Index,
    Indexed,
    Sequence,
    Vector,
    Version,
    field,
    many,
    mapped,
    now,
)
from mangonel.odm.model.hooks import after, around, before, listen
from mangonel.odm.model.inputs import Input, Patch
from mangonel.odm.model.introspection import Field, fields
from mangonel.odm.model.many import Many
from mangonel.odm.model.refs import Ref, Refs
from mangonel.odm.model.texts import Email, Secret, Url
from mangonel.odm.query.include import related
from mangonel.odm.query.pages import Page, Pages
from mangonel.odm.query.query import Query
from mangonel.odm.query.scope import scope
from mangonel.odm.query.watch import Changes, Event
from mangonel.odm.store.document import Document
from mangonel.odm.store.files import File
from mangonel.odm.store.history import Audited, Revision, Versioned, acting_as
from mangonel.odm.store.mixins import KeepsChanges, SoftDelete, Timestamps
from mangonel.odm.store.schema import IndexPlan
from mangonel.odm.store.search import SearchIndex
from mangonel.odm.store.unit import Unit
from mangonel.testing import Commands

__all__ = [
    "AnyRef",
    "Audited",
    "BelongsTo",
    "Changes",
    "Commands",
    "Computed",
    "Connection",
    "Custom",
    "DanglingReference",
    "DeleteDenied",
    "Document",
    "DocumentNotFound",
    "Email",
    "Embedded",
    "Encrypted",
    "Event",
    "Expr",
    "F",
    "Field",
    "File",
    "Index",
    "IndexPlan",
    "Indexed",
    "Input",
    "KeepsChanges",
    "LineString",
    "Many",
    "Mapped",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "MultipleDocuments",
    "NoTenant",
    "NotConnected",
    "NotFetched",
    "NotLoaded",
    "ObjectId",
    "OdmError",
    "Page",
    "Pages",
    "ParallelSaveError",
    "Patch",
    "Path",
    "Pipeline",
    "Point",
    "Polygon",
    "Query",
    "Ref",
    "Refs",
    "Revision",
    "SearchIndex",
    "Secret",
    "Sequence",
    "SoftDelete",
    "StaleDocument",
    "Timestamps",
    "TooManyCommands",
    "Unit",
    "UnsupportedOption",
    "Url",
    "ValidationError",
    "Vector",
    "Version",
    "Versioned",
    "WrongTenant",
    "acting_as",
    "add_to_set",
    "after",
    "all_",
    "all_tenants",
    "and_",
    "around",
    "asc",
    "before",
    "between",
    "bit",
    "by_name",
    "computed",
    "connect",
    "connection",
    "contains",
    "count_commands",
    "current_date",
    "current_tenant",
    "desc",
    "documents",
    "each",
    "elem",
    "embedded_in",
    "encrypted_fields_map",
    "endswith",
    "exists",
    "expr",
    "field",
    "fields",
    "has_type",
    "identity_map",
    "iexact",
    "in_",
    "inc",
    "json_schema",
    "listen",
    "many",
    "mapped",
    "max_",
    "min_",
    "mul",
    "nor",
    "not_",
    "not_in",
    "now",
    "or_",
    "pop",
    "pull",
    "pull_where",
    "push",
    "ref_of",
    "regex",
    "related",
    "rename",
    "schema_map",
    "scope",
    "set_",
    "set_on_insert",
    "size",
    "some",
    "startswith",
    "tenant",
    "text",
    "unset",
    "where_js",
]  # fmt: skip
