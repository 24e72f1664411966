"""Programs in other languages, and in Python beside them, for the comparison between languages.

Each is a process that `_build.py` makes from a folder here with the language's ordinary tools, on demand; `PROTOCOL.md`
defines how the lab talks to it. The rows are in `languages.toml`.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from mangonel.lab.contender import Contender
from mangonel.lab.contenders.languages import _build

TABLE = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
# Packages by the end of a row's name.
NEEDED = {
    "uvloop": ["uvloop"],
    "tornado": ["tornado"],
    "starlette": ["starlette", "uvicorn", "uvloop", "httptools"],
}
FLAG = "program-"  # prefix of each flag, since other experiments have their own


@dataclass(frozen=True)
class ProgramContender(Contender):
    """A row: a process in some language, with the seconds of warm-up that its runtime needs."""

    language: str = ""
    row: str = ""
    warm_s: float = 0.3

    def missing(self) -> str:
        """Return the missing tool, or ""."""
        return super().missing() or _build.lacking(self.language, TABLE["tools"][self.language])

    def prepare(self) -> None:
        """Build the program, unless it was built from the same source; BuildError with the tool's own message."""
        _build.build(self.language)

    def command(self, *words: str) -> list[str]:
        """Return the command line of its process."""
        return [*_build.command(self.language, *words[:1]), self.row, *words]

    def installed(self) -> dict[str, dict[str, str]]:
        """Return the versions of driver and runtime, as the program reports them."""
        told = json.loads(subprocess.run(self.command("version"), capture_output=True, check=True).stdout)
        name, _, version = told["driver"].rpartition(" ")
        runtime, _, number = told["runtime"].rpartition(" ")
        return {"versions": {name: version, runtime: number}, "builds": {}}


def _contender(
    id: str, title: str, language: str, row: str, offers: list[str], warm_s: float
) -> ProgramContender:
    packages = tuple(name for end, names in NEEDED.items() if row.endswith(end) for name in names)
    packages += ("pymongo",) if row.startswith(("pymongo", "raw")) else ()
    flags = {"floor"} & set(offers) | {FLAG + flag for flag in offers if flag != "floor"}
    flags |= {FLAG + "inserts"} if "writes" in offers else set()
    return ProgramContender(id, title, frozenset(flags), packages, language=language, row=row, warm_s=warm_s)


CONTENDERS = tuple(_contender(*row) for row in TABLE["rows"])
