"""The encryption classes have the same signatures as PyMongo's."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from mangonel import encryption


def arguments_of(function: Any) -> list[tuple[str, Any, Any]]:
    """The arguments with their defaults; objects that each library has of its own count as equal."""
    return [
        (one.name, one.kind, one.default if isinstance(one.default, (int, str, type(None))) else "…")
        for one in inspect.signature(function).parameters.values()
    ]


def test_every_name_and_argument_is_pymongos() -> None:
    pytest.importorskip("pymongo")
    from pymongo import encryption as blocking
    from pymongo import encryption_options
    from pymongo.asynchronous import encryption as asynchronous

    names = set()
    for module in (blocking, asynchronous, encryption_options):
        for name, theirs in vars(module).items():
            if (
                name.startswith("_")
                or not inspect.isclass(theirs)
                or not theirs.__module__.startswith("pymongo.")
            ):
                continue
            if not ("encryption" in theirs.__module__ or "kms" in theirs.__module__):
                continue
            names.add(name)
            ours = getattr(encryption, name)
            for member in ["__init__", *(name for name in vars(theirs) if not name.startswith("_"))]:
                if callable(getattr(theirs, member)):
                    expected = arguments_of(getattr(theirs, member))
                    assert arguments_of(getattr(ours, member)) == expected, (name, member)
                else:
                    assert hasattr(ours, member), (name, member)
    assert {"AsyncClientEncryption", "AutoEncryptionOpts", "ClientEncryption", "HTTPProxyKMSConnect"} <= names
