"""The documents of the writers' model, and another process that writes them.

For each line of its input, the process appends an element to a list of one document and saves it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated, Any

from mangonel.bson import ObjectId
from mangonel.odm import Document, Embedded, Version, field


class Part(Embedded):
    name: str
    note: str | None = None
    n: int = 0


class Plain(Document):
    __collection__ = "writers"
    n: int = 0
    tags: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    spare: list[str] | None = None


class Counted(Document):
    __collection__ = "writers"
    n: int = 0
    tags: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    spare: list[str] | None = None
    rev: Annotated[int, Version] = 0


class OtherProcess:
    """The process and its commands.

    Args:
        uri: the deployment.
        database: name of the database.
    """

    def __init__(self, uri: str, database: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "odm.other_writer", uri, database],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=__file__.rpartition("/odm/")[0],
            text=True,
        )

    def ask(self, model: Any, id: ObjectId, kind: str, name: str) -> None:
        """Let the process load a document, append an element of this name to a list, and save it; `answer` waits."""
        assert self._process.stdin is not None
        asked = {"model": model.__name__, "id": str(id), "kind": kind, "name": name}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()

    def answer(self) -> str | None:
        """Return the name of the process's error, or None."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the other process ended"
        found: str | None = json.loads(line)
        return found

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def append(document: Any, kind: str, name: str) -> None:
    """Append an element to one of a document's lists."""
    if kind == "parts":
        document.parts.append(Part(name=name))
    elif kind == "keys":
        document.keys.add(name)
    elif kind == "spare" and document.spare is None:
        document.spare = [name]
    else:
        getattr(document, kind).append(name)


def main() -> None:
    """Answer until the input ends."""
    from mangonel.odm import OdmError, connect

    models = {"Plain": Plain, "Counted": Counted}
    connect(sys.argv[1], database=sys.argv[2])
    for line in sys.stdin:
        asked = json.loads(line)
        found: str | None = None
        try:
            document = models[asked["model"]].get(ObjectId(asked["id"]))
            append(document, asked["kind"], asked["name"])
            document.save()
        except OdmError as error:
            found = type(error).__name__
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
