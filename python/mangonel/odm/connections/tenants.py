"""The tenant of a context: in this thread or task, models with `__tenant__` read and write only its documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mangonel.odm.errors import NoTenant

# None: no tenant is set.
_current: ContextVar[Any] = ContextVar("mangonel_odm_tenant", default=None)

ALL: Any = type("AllTenants", (), {"__repr__": lambda self: "ALL"})()
"""The value of the context in a block of `all_tenants()`."""


@contextmanager
def tenant(value: Any) -> Iterator[Any]:
    """Work for one tenant in a block, in this thread or task: models with `__tenant__` reach only its documents.

    Args:
        value: the value of the models' tenant field: text, a number, an id, or the referenced document.

    Raises:
        ValueError: the value is None.

    Example:
        >>> class Invoice(Document):
        ...     __tenant__ = "company"
        ...     company: str = field(default_factory=current_tenant)
        ...     total: int = 0
        >>> with tenant("acme"):
        ...     invoice = Invoice(total=3).save()
        >>> invoice.company
        'acme'
        >>> with tenant("other"):
        ...     Invoice.find().count()
        0
    """
    if value is None:
        raise ValueError("expected a tenant, got None; all_tenants() reaches the documents of every tenant")
    token = _current.set(value)
    try:
        yield value
    finally:
        _current.reset(token)


@contextmanager
def all_tenants() -> Iterator[None]:
    """Reach the documents of every tenant in a block, in this thread or task: for reports, migrations and the like.

    Example:
        >>> with all_tenants():
        ...     User.find().count()
        2
    """
    token = _current.set(ALL)
    try:
        yield
    finally:
        _current.reset(token)


def current_tenant() -> Any:
    """Return the tenant of this context: the default of a model's tenant field.

    Raises:
        NoTenant: no tenant is set, or the block is one of `all_tenants()`.

    Example:
        >>> with tenant("acme"):
        ...     current_tenant()
        'acme'
    """
    found = _current.get()
    if found is None or found is ALL:
        where = "in a block of all_tenants()" if found is ALL else "in this context"
        raise NoTenant(
            f"expected a tenant {where}, got none; use `with tenant(…):`, or give the field its value"
        )
    return found


def tenant_or_all(model: Any) -> Any:
    """Return the tenant of this context, or `ALL`.

    Raises:
        NoTenant: neither is set.
    """
    found = _current.get()
    if found is None:
        raise NoTenant(
            f"expected a tenant for {model.__name__}, which keeps its tenants apart by {model.__tenant__!r}, got "
            "none; use `with tenant(…):`, or `with all_tenants():` for the documents of all"
        )
    return found
