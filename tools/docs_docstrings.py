"""Adds docstrings that are not in the source of a class (from its definition or from Rust), and asyncio twins."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from griffe import Class, Docstring, Extension, Function, Parser


class Inherited(Extension):
    """Gives members without a docstring their docstring at run time, and terminals their asyncio twins."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        if pkg.name != "mangonel":
            return
        for module_name in ("mangonel.api", "mangonel.gridfs.api", "mangonel.encryption.api"):
            module, read = importlib.import_module(module_name), pkg[module_name.partition(".")[2]]
            for name in read.members:
                cls = getattr(module, name, None)
                if inspect.isclass(cls) and cls.__module__ == module_name:
                    _complete(read[name], cls)
        _add_twins(pkg["odm"], pkg["odm._twins"])


def _add_twins(module: Any, twins: Any) -> None:
    """Put the asyncio twin of each terminal after it."""
    for member in list(module.members.values()):
        if member.is_alias:
            continue
        if member.is_module:
            _add_twins(member, twins)
        elif isinstance(member, Class):
            for base in map(str, member.bases):
                found = twins.members.get(base.partition("[")[0])
                if isinstance(found, Class):
                    _add_those_of(found, member)


def _add_those_of(found: Class, read: Class) -> None:
    # The reference shows members in this order.
    members = dict(read.members)
    read.members.clear()
    for name, member in members.items():
        read.members[name] = member
        twin, overloads = found.members.get(f"a{name}"), found.overloads.get(f"a{name}")
        if twin is None and overloads:
            twin = Function(f"a{name}", docstring=_docstring(f"As `{name}`, on asyncio.", found))
            twin.overloads, twin.labels = overloads, overloads[0].labels
        if twin is not None:
            twin.lineno = member.lineno
            read.set_member(twin.name, twin)


def _docstring(text: str, parent: Any) -> Docstring:
    options: Any = {"warnings": False, "warn_unknown_params": False}
    return Docstring(inspect.cleandoc(text), parent=parent, parser=Parser.google, parser_options=options)


def _complete(read: Any, cls: type) -> None:
    if read.docstring is None and cls.__doc__:
        read.docstring = _docstring(cls.__doc__, read)
    for name, member in read.members.items():
        if member.is_alias or member.docstring is not None:
            continue
        text = inspect.getdoc(inspect.getattr_static(cls, name, None)) or inspect.getdoc(
            getattr(cls, name, None)
        )
        if text:
            member.docstring = _docstring(text, member)
