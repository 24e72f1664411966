"""Adds docstrings that the source reader cannot see: those that a public class has from its definition or from Rust."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from griffe import Docstring, Extension, Parser


class Inherited(Extension):
    """Gives members without a docstring the one that they have at run time."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        if pkg.name != "mangonel":
            return
        for module_name in ("mangonel.api", "mangonel.gridfs.api", "mangonel.encryption.api"):
            module, read = importlib.import_module(module_name), pkg[module_name.partition(".")[2]]
            for name in read.members:
                cls = getattr(module, name, None)
                if inspect.isclass(cls) and cls.__module__ == module_name:
                    _complete(read[name], cls)


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
