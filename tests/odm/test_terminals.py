"""A terminal is one method, from which its asyncio twin and the types of both are made."""

from __future__ import annotations

import inspect
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from mangonel.odm import Connection, Document, Query
from mangonel.odm._terminal import IS_ASYNC, Twins, terminal
from odm.conftest import Face

ROOT = Path(__file__).resolve().parents[2]
TERMINAL = '''
    @classmethod
    @terminal
    def eldest(cls, *, over: int = 0, among: tuple[str, ...] = ()) -> Self | None:
        """Return one of them."""
        found: Self | None = Query(cls)._single(IS_ASYNC, "first")
        return found
'''


def terminals() -> Iterator[tuple[type, str]]:
    """Yield each terminal: its class and its name."""
    waiting = Twins.__subclasses__()
    for cls in waiting:
        waiting += cls.__subclasses__()
        for name, member in vars(cls).items():
            method = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if getattr(method, "__is_terminal__", False) and cls.__module__.startswith("mangonel."):
                yield cls, name


class Pupil(Document):
    name: str
    age: int = 0

    @classmethod
    @terminal
    def eldest(cls, *, over: int = 0) -> Self | None:
        """Return the oldest one over an age, or None."""
        query = cls.find(cls.age > over).sort("-age")
        found: Self | None = query._single(IS_ASYNC, "first")
        return found


def test_a_terminal_of_one_method_runs_on_both_faces(db: Connection, face: Face) -> None:
    face.save(Pupil(name="Ada", age=36), Pupil(name="Eve", age=24))

    assert face.call(Pupil, "eldest").name == "Ada"
    assert face.call(Pupil, "eldest", over=40) is None


def test_a_twin_takes_what_its_terminal_takes_and_returns_a_coroutine_of_what_that_returns() -> None:
    own, twin = inspect.signature(Pupil.eldest), inspect.signature(Pupil.aeldest)

    assert twin.parameters == own.parameters
    assert own.return_annotation == "Self | None"
    assert twin.return_annotation == "Coroutine[Any, Any, Self | None]"
    assert Pupil.aeldest.__qualname__ == "Pupil.aeldest"
    assert inspect.getdoc(Pupil.aeldest) == "As `eldest`, on asyncio."


def test_every_terminal_has_a_twin_of_the_same_arguments() -> None:
    found = list(terminals())

    assert len(found) > 50
    assert (Query.__mro__[1], "update") in found
    for cls, name in found:
        own, twin = (inspect.getattr_static(cls, prefix + name) for prefix in ("", "a"))
        assert type(twin) is type(own)
        if not isinstance(own, property):
            own, twin = (inspect.signature(getattr(cls, prefix + name)) for prefix in ("", "a"))
            assert twin.parameters == own.parameters, name


def test_a_terminal_that_does_not_ask_for_the_face_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected .*Deaf\.count to read IS_ASYNC, got a terminal"):

        class Deaf(Twins):
            @terminal
            def count(self) -> int:
                return 1


def test_what_stands_inside_a_terminal_reads_the_face_too() -> None:
    class Listed(Twins):
        @terminal
        def faces(self) -> list[bool]:
            return [IS_ASYNC for _ in range(2)] + [(lambda: IS_ASYNC)()]

    found: Any = Listed()
    assert (found.faces(), found.afaces()) == ([False] * 3, [True] * 3)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A copy of the sources from which the types are written."""
    for path in (*ROOT.glob("tools/*.py"), *ROOT.glob("python/mangonel/odm/**/*.py*")):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return tmp_path


def written(folder: Path) -> subprocess.CompletedProcess[str]:
    program = f"import sys; sys.path.insert(0, {str(folder / 'tools')!r}); import twins; print(twins.text())"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_adding_a_terminal_takes_one_method(scratch: Path) -> None:
    document = scratch / "python/mangonel/odm/store/document.py"
    code = document.read_text()
    document.write_text(code.replace("    # Storing.\n", f"{TERMINAL}\n    # Storing.\n"))

    found = written(scratch)

    assert found.returncode == 0, found.stderr
    assert (
        "    @classmethod\n    def aeldest(\n        cls, *, over: int = 0, among: tuple[str, ...] = ...\n"
        '    ) -> Coroutine[Any, Any, Self | None]: """As `eldest`, on asyncio."""\n'
    ) in found.stdout


def test_a_terminal_that_drops_the_coroutine_gets_no_types(scratch: Path) -> None:
    document = scratch / "python/mangonel/odm/store/document.py"
    code = document.read_text()
    dropped = TERMINAL.replace("        return found\n", "")
    document.write_text(code.replace("    # Storing.\n", f"{dropped}\n    # Storing.\n"))

    found = written(scratch)

    assert "expected the terminal Document.eldest to end in return" in found.stderr


def test_the_text_of_what_a_twin_returns() -> None:
    on_asyncio = runpy.run_path(str(ROOT / "python/mangonel/odm/_terminal.py"))["on_asyncio"]

    assert on_asyncio("Iterator[ArrowTable]") == "AsyncIterator[ArrowTable]"
    assert on_asyncio("Collection[Any]") == "AsyncCollection[Any]"
    assert on_asyncio("list[T]") == "Coroutine[Any, Any, list[T]]"
