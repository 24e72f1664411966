"""Check the rules of flows: code that runs on every face may wait only through a port.

A flow is an `async def` whose name ends in `_flow`. It awaits only methods of a port and other flows, so the blocking
face can run it to its end at once. Every call of a flow is awaited or passed to `port.flow`.

    python tools/flows.py    fails if a rule is broken
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "python" / "mangonel"

# The packages whose code runs on every face.
FLOORS = ("_shared", "admin", "encryption", "gridfs", "odm", "websessions")

# The methods of a port for flows; see `_faces/port.py`.
PORT_METHODS = {"arun", "call", "finish", "outlast", "pause"}

# A flow of websessions waits for a store, which has these methods; see `websessions/stores/protocol.py`.
STORE_OWNERS = {"store", "epochs"}
STORE_METHODS = {"get", "put", "touch", "delete", "find"}

# These define members of the asyncio face only, so their coroutines are not flows.
FACE_OF_ITS_OWN = (
    "_shared/cursors/iteration.py",
    "admin/_asgi.py",
    "admin/_port.py",
    "admin/_tornado.py",
    "admin/_wsgi.py",
    "_shared/sessions/contexts.py",
    "gridfs/_iteration.py",
    "gridfs/web/",
    "websessions/cli.py",
    "websessions/faces.py",
    "websessions/frameworks/",
    "websessions/hooks.py",
    "websessions/late.py",
    "websessions/lock.py",
    "websessions/manager.py",
    "websessions/predecessors.py",
    "websessions/stores/",
    "websessions/testing.py",
)


def check(source: str, name: str) -> list[str]:
    """Return the broken rules in one file, each with its line."""
    found: list[str] = []
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        problem = None
        if isinstance(node, ast.AsyncFunctionDef) and not node.name.endswith("_flow"):
            problem = f"expected the name of a flow to end in _flow, got {node.name}"
        elif isinstance(node, ast.FunctionDef) and node.name.endswith("_flow"):
            problem = f"expected {node.name} to be async, or another name"
        elif isinstance(node, ast.AsyncFor | ast.AsyncWith):
            problem = "expected await of a port or a flow, got async for or async with"
        elif isinstance(node, ast.comprehension) and node.is_async:
            problem = "expected await of a port or a flow, got an async comprehension"
        elif isinstance(node, ast.Await) and not may_be_awaited(node.value):
            problem = f"expected await of a port or a flow, got await {ast.unparse(node.value)}"
        elif isinstance(node, ast.Call) and is_flow(node) and not is_run(node, parents):
            problem = f"expected {ast.unparse(node.func)} to be awaited or given to port.flow"
        if problem:
            place = node.iter if isinstance(node, ast.comprehension) else node
            found.append(f"{name}:{getattr(place, 'lineno', 0)}: {problem}")
    return found


def called_name(call: ast.Call) -> str:
    """Return the last part of the called name."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_flow(call: ast.Call) -> bool:
    """Return whether a call is to a flow."""
    return called_name(call).endswith("_flow")


def is_of_port(call: ast.Call) -> bool:
    """Return whether a call is to a method of a port: of `self._port`, `collection._port` or `port`."""
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = call.func.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return name in {"_port", "port"}


def may_be_awaited(value: ast.expr) -> bool:
    """Return whether a flow may await this expression."""
    if not isinstance(value, ast.Call):
        return False
    if is_flow(value) or (is_of_port(value) and called_name(value) in PORT_METHODS):
        return True
    owner = value.func.value if isinstance(value.func, ast.Attribute) else None
    is_of_store = isinstance(owner, ast.Name) and owner.id in STORE_OWNERS
    return is_of_store and called_name(value) in STORE_METHODS


def is_run(call: ast.Call, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a call of a flow is awaited or passed to `port.flow`."""
    parent = parents.get(call)
    if isinstance(parent, ast.Await):
        return True
    return isinstance(parent, ast.Call) and is_of_port(parent) and called_name(parent) == "flow"


def main() -> int:
    found = []
    for floor in FLOORS:
        for path in sorted((SOURCES / floor).rglob("*.py")):
            name = str(path.relative_to(SOURCES))
            if not name.startswith(FACE_OF_ITS_OWN):
                found += check(path.read_text(), name)
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
