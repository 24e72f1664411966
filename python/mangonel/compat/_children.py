"""Installs the aliases in processes that `multiprocessing` starts without a fork, before they import the program."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import Any

from mangonel import compat


class Aliases:
    """Installs them where it is unpickled."""

    def __reduce__(self) -> Any:
        has_motor = any("motor" in getattr(finder, "roots", ()) for finder in sys.meta_path)
        return compat.install_as_motor if has_motor else compat.install_as_pymongo, ()


def follow(spawn: Any) -> None:
    """Add the aliases to the data that `multiprocessing.spawn` sends to a new process."""
    plain = spawn.get_preparation_data

    def prepared(name: str) -> Any:
        data = {**plain(name), "aliases": Aliases()}
        if sys._getframe(1).f_code.co_name == "ensure_running":
            # The fork server would import the program without them.
            data.pop("init_main_from_path", None)
        return data

    spawn.get_preparation_data = prepared


def spec_of_spawn(path: Any) -> Any:
    """Return the spec of `multiprocessing.spawn`, which `follow` changes once it is loaded."""
    spec: Any = PathFinder.find_spec("multiprocessing.spawn", path)
    if spec is not None:
        plain = spec.loader.exec_module

        def load(module: Any) -> None:
            plain(module)
            follow(module)

        spec.loader.exec_module = load
    return spec
