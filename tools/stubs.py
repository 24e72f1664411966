"""Write the types of both faces from the one definition of each class.

`FaceResult[T]` in a definition becomes T in the blocking class; in the asyncio class the method becomes an `async
def`, so that a type checker reports a missing `await`. References to definitions (`_Cursor[...]`) become the public
class of the same face. The tables below hold types that a definition cannot express. Changes no behaviour: it writes
only `.pyi` files and imports nothing of the package.

    python tools/stubs.py           writes
    python tools/stubs.py --check   fails if the written files are out of date
"""

from __future__ import annotations

import ast
import collections.abc
import copy
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import twins
from signatures import WIDTH, Defect, Function, default_of, layout, parameters

SOURCES = Path(__file__).resolve().parent.parent / "python"

# The modules with public classes; each joins definitions with a face, class by class.
TARGETS = ("mangonel.api", "mangonel.gridfs.api", "mangonel.encryption.api")
# The modules whose classes a target names as its own.
PARTS = {
    "mangonel.api": (
        "mangonel._api.blocking_client",
        "mangonel._api.blocking",
        "mangonel._api.aio",
        "mangonel._api.partitions",
    )
}

# Methods that pass their arguments to a constructor: their stub shows its signature without the first argument. A
# parameter that the method itself names keeps the method's annotation.
TAKES_ARGUMENTS_OF = {
    ("_Collection", "find"): "_Cursor",
    ("_Collection", "find_one"): "_Cursor",
    ("_Collection", "find_raw_batches"): "_Cursor",
}

# Types that only return their items: if the items have type `object`, they accept every item type.
READ_ONLY = {"Iterable", "Mapping", "Sequence"}

# Names with an underscore that users need: the id of a stored file.
PUBLIC = {"_id"}

# Methods left out: calling a collection means a misspelt method, which a type checker should report.
LEFT_OUT = {"__call__", "__del__", "__getstate__"}

_TRANSACTION_ARGUMENTS = """\
    read_concern: ReadConcern | None = None,
    write_concern: WriteConcern | None = None,
    read_preference: _ServerMode | None = None,
    max_commit_time_ms: int | None = None,
"""

_ON = (
    "@overload\ndef on(self, client: MongoClient[Any]) -> Partition[_DocumentType]: ...\n"
    "@overload\ndef on(self, client: AsyncMongoClient[Any]) -> AsyncPartition[_DocumentType]: ..."
)

# Methods whose types depend on an argument or on the face: their blocking and asyncio stubs.
WRITTEN_OUT = {
    ("_Cursor", "__getitem__"): (
        "@overload\ndef __getitem__(self, index: int) -> _DocumentType: ...\n"
        "@overload\ndef __getitem__(self, index: slice) -> Self: ...",
        "",
    ),
    ("_RawBatchCursor", "__getitem__"): ("", ""),
    ("_ClientSession", "bind"): (
        "def bind(self, end_session: bool = True) -> AbstractContextManager[Self]: ...",
        "def bind(self, end_session: bool = True) -> AbstractAsyncContextManager[Self]: ...",
    ),
    ("_ClientSession", "start_transaction"): (
        f"def start_transaction(\n    self,\n{_TRANSACTION_ARGUMENTS}) -> BlockingTransaction: ...",
        f"def start_transaction(\n    self,\n{_TRANSACTION_ARGUMENTS}) -> AsyncTransaction: ...",
    ),
    ("_ClientSession", "with_transaction"): (
        "def with_transaction(\n    self,\n    callback: Callable[[ClientSession], _Result],\n"
        f"{_TRANSACTION_ARGUMENTS}    *,\n    timeout_ms: float | None = None,\n) -> _Result: ...",
        "async def with_transaction(\n    self,\n"
        "    callback: Callable[[AsyncClientSession], Coroutine[Any, Any, _Result]],\n"
        f"{_TRANSACTION_ARGUMENTS}    *,\n    timeout_ms: float | None = None,\n) -> _Result: ...",
    ),
    ("_RawBatchCommandCursor", "__getitem__"): ("", ""),
    ("_Partition", "on"): (_ON, _ON),
}

# Iteration returns the class's type parameter; it is implemented in Rust, without types.
ITERATION = {
    "BlockingCursor": "def __iter__(self) -> Self: ...\ndef __next__(self) -> _DocumentType: ...",
    "AsyncCursorBase": "def __aiter__(self) -> Self: ...\n"
    "def __anext__(self) -> Awaitable[_DocumentType]: ...",
}

# The item types of these classes, where others return documents; and the methods with them.
HANDS_OUT = {"_RawBatchCursor": "bytes", "_RawBatchCommandCursor": "bytes"}
HANDING_OUT = {"next", "try_next", "to_list"}

# The places where `Any` stays in the driver's types, and why; `--check` refuses others.
ANY_STAYS = (
    (r"\bdict\[str, Any\]", "documents of the server's or the user's own shape, to be looked into"),
    (r"\blist\[Any\]", "the values of a field: of any type that BSON has"),
    (r"-> Mapping\[str, Any\]", "documents to be handed back as they are, and looked into by the curious"),
    (r"\bSON\[str, Any\]", "a document whose order of keys is kept"),
    (r"\bCodecOptions\[Any\]", "its document class is not that of the object that it belongs to"),
    (
        r"\b(Async)?(MongoClient|Database|Collection)\[Any\]",
        "taken or returned with any document class",
    ),
    (r"\bCoroutine\[Any, Any, _Result\]", "what an `async def` makes, as type checkers spell it"),
    (r"\bbound=Mapping\[str, Any\]|^from typing import Any\b", "what documents are"),
    (r"def (_id|put)\(.*\) -> Any", "the id of a stored file: of any type that BSON has"),
    (r"def __getattr__\(.*\) -> Any", "a field of a stored file's document"),
    (r"def __a?next__\(.*\) -> Any", "what a cursor of the public class of its face hands out"),
    (r"def download\(.*\) -> Any", "the bytes, or how many were put into `buffer`"),
    (r"def decrypt\(.*\) -> Any", "a value of any type that BSON has"),
    (r"-> tuple\[.*, Mapping\[str, Any\]\]", "the encrypted fields, a document as it was given"),
)
MOST_ANY = 80

DOCUMENT = "_DocumentType"
OTHER_DOCUMENT = "_OtherDocumentType"

HEADER = f"""\
# Written by tools/stubs.py from the definitions; change those, then run `make stubs`.

{{imports}}

{DOCUMENT} = TypeVar("{DOCUMENT}", bound=Mapping[str, Any], default=dict[str, Any])
{OTHER_DOCUMENT} = TypeVar("{OTHER_DOCUMENT}", bound=Mapping[str, Any])
_Result = TypeVar("_Result")
"""
HEADER_IMPORTS = {
    "AbstractAsyncContextManager": ("contextlib", "AbstractAsyncContextManager"),
    "AbstractContextManager": ("contextlib", "AbstractContextManager"),
    "AsyncTransaction": ("mangonel._shared.sessions.contexts", "AsyncTransaction"),
    "BlockingTransaction": ("mangonel._shared.sessions.contexts", "BlockingTransaction"),
    "Callable": ("collections.abc", "Callable"),
    "ReadConcern": ("mangonel.read_concern", "ReadConcern"),
    "WriteConcern": ("mangonel.write_concern", "WriteConcern"),
    "_ServerMode": ("mangonel.read_preferences", "_ServerMode"),
    "Any": ("typing", "Any"),
    "Awaitable": ("collections.abc", "Awaitable"),
    "Coroutine": ("collections.abc", "Coroutine"),
    "Generic": ("typing", "Generic"),
    "Mapping": ("collections.abc", "Mapping"),
    "Self": ("typing", "Self"),
    "TypeVar": ("typing_extensions", "TypeVar"),
    "overload": ("typing", "overload"),
}
# Definitions take these from a module that avoids importing typing; type checkers know the originals.
STAND_INS = {"mangonel._light": "typing"}


@dataclass
class Module:
    """One source file: its classes, and the origins of its names."""

    name: str
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)

    def origin(self, name: str) -> tuple[str, str] | None:
        """Return the module and name that `name` is imported from, or None for a builtin."""
        if name in self.imports:
            module, original = self.imports[name]
            if module in STAND_INS and hasattr(collections.abc, original):
                return "collections.abc", original
            return STAND_INS.get(module, module), original
        return (self.name, name) if name in self.own else None


def parse(name: str) -> Module:
    """Read one module, including its `if TYPE_CHECKING:` block."""
    path = SOURCES.joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    module = Module(name)
    _collect(ast.parse(path.read_text()).body, module)
    for part in PARTS.get(name, ()):
        _collect(ast.parse(SOURCES.joinpath(*part.split(".")).with_suffix(".py").read_text()).body, module)
    return module


def _collect(body: list[ast.stmt], module: Module) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef):
            module.classes.setdefault(node.name, node)
            module.own.add(node.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                module.imports[alias.asname or alias.name] = (node.module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                module.imports[alias.asname or alias.name.partition(".")[0]] = (alias.name, "")
        elif isinstance(node, ast.If):
            _collect(node.body, module)
        elif isinstance(node, ast.Assign):
            module.own.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            module.own.add(node.target.id)


class Library:
    """The modules read so far, and the public class of each definition on each face."""

    def __init__(self, targets: tuple[str, ...]) -> None:
        self._modules: dict[str, Module] = {}
        # (definition, is_async) -> (module, public name)
        self.public: dict[tuple[str, bool], tuple[str, str]] = {}
        for target in targets:
            for name, node in self.module(target).classes.items():
                if name.startswith("_"):
                    continue
                for base in node.bases:
                    definition = base_name(base)
                    if definition.startswith("_"):
                        self.public.setdefault((definition, is_async(node)), (target, name))

    def module(self, name: str) -> Module:
        if name not in self._modules:
            self._modules[name] = parse(name)
        return self._modules[name]

    def find_class(self, module: Module, name: str) -> tuple[Module, ast.ClassDef] | None:
        """Return the class that `name` means in `module`; None outside of the package, or for a Rust class."""
        if name in module.classes:
            return module, module.classes[name]
        origin = module.origin(name)
        if origin is None or not origin[0].startswith("mangonel") or origin[0] == "mangonel._core":
            return None
        source = self.module(origin[0])
        return self.find_class(source, origin[1]) if origin[1] in source.own | set(source.imports) else None


def base_name(base: ast.expr) -> str:
    """Return the name of a base class without its parameters."""
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def is_async(node: ast.ClassDef) -> bool:
    """Return whether a public class belongs to the asyncio face, by its name."""
    return node.name.startswith("Async")


class Annotation(ast.NodeTransformer):
    """Rewrites one annotation for one face, and records the names that it needs."""

    def __init__(self, writer: Writer, module: Module, document: str = DOCUMENT) -> None:
        self._writer, self._module, self._document = writer, module, document

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            found: ast.expr = self.visit(ast.parse(node.value, mode="eval").body)
            return found
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if base_name(node) == "Literal":
            node.value = self.visit(node.value)
            return node
        if base_name(node) != "FaceResult":
            node.value, node.slice = self.visit(node.value), self.visit(node.slice)
            return node
        inner: ast.expr = self.visit(node.slice)
        if not self._writer.is_async:
            return inner
        return ast.Subscript(
            value=self.visit(ast.Name("Coroutine")),
            slice=ast.Tuple([ast.Name("object"), ast.Constant(None), inner]),
        )

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._writer.arguments:
            module, argument = self._writer.arguments[node.id]
            return cast(
                ast.expr, Annotation(self._writer, module, self._document).visit(copy.deepcopy(argument))
            )
        return ast.Name(
            self._writer.reference(self._module, self._document if node.id == DOCUMENT else node.id)
        )


class Accepted(ast.NodeTransformer):
    """Rewrites parameter types: `object` accepts the same as `Any`, and says more."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name("object") if node.id == "Any" else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if base_name(node) in READ_ONLY:
            node.slice = self.visit(node.slice)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        if "object" in {ast.unparse(left), ast.unparse(right)}:
            return ast.Name("object")
        return ast.BinOp(left, node.op, right)


class Writer:
    """Writes the stub of one target module."""

    def __init__(self, library: Library, target: str) -> None:
        self._library = library
        self._target = library.module(target)
        self._needed: set[tuple[str, str]] = set()
        self.is_async = False
        self._handed_out = DOCUMENT
        # Type parameter of a base -> its argument in the written class, and the module that gives it.
        self.arguments: dict[str, tuple[Module, ast.expr]] = {}

    def text(self) -> str:
        classes = [
            self._class(node) for name, node in self._target.classes.items() if not name.startswith("_")
        ]
        body = "\n".join(classes)
        for name in ("Any", "Mapping", "TypeVar"):
            self._needed.add(HEADER_IMPORTS[name])
        lines = []
        modules = {module for module, _ in self._needed}
        for module in sorted(modules, key=lambda name: (name.startswith("mangonel"), name)):
            names = sorted(name for source, name in self._needed if source == module)
            line = f"from {module} import {', '.join(names)}" if names != [""] else f"import {module}"
            if len(line) > WIDTH:
                line = f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"
            lines.append(line)
        return HEADER.format(imports="\n".join(lines)) + "\n" + body

    def reference(self, module: Module, name: str) -> str:
        """Return the stub's name for `name` as used in `module`."""
        public = self._library.public.get((name, self.is_async))
        if public is not None:
            if public[0] != self._target.name:
                self._needed.add(public)
            return public[1]
        if name in {DOCUMENT, OTHER_DOCUMENT} or name in self._target.classes:
            return name
        if (name, not self.is_async) in self._library.public:
            raise Defect(f"{self._target.name}: {name} has no class on this face")
        origin = HEADER_IMPORTS.get(name) or module.origin(name)
        if origin is not None:
            self._needed.add(origin)
        return name

    def _class(self, node: ast.ClassDef) -> str:
        self.is_async = is_async(node)
        bases = [base_name(base) for base in node.bases]
        parents = [name for name in bases if name in self._target.classes and not name.startswith("_")]
        chain = self._linearize(self._target, node)
        handed_out = [HANDS_OUT[other.name] for _, other in chain if other.name in HANDS_OUT]
        self._handed_out = handed_out[0] if handed_out else DOCUMENT
        self.arguments = dict(self._type_arguments(chain))
        inherited: set[str] = set()
        for parent in parents:
            for module, other in self._linearize(self._target, self._target.classes[parent]):
                inherited.add(f"{module.name}.{other.name}")
        members: dict[str, list[str]] = {}
        for module, definition in chain:
            if f"{module.name}.{definition.name}" not in inherited:
                for name, lines in self._members(module, definition, chain):
                    members.setdefault(name, lines)
        for module, definition in chain:
            for name in map(base_name, definition.bases):
                if name in ITERATION and f"{module.name}.{definition.name}" not in inherited:
                    for line in self._ready_made(ITERATION[name]):
                        members.setdefault(line.split("(")[0][4:], [line])
        is_generic = any("Generic" in map(base_name, definition.bases) for _, definition in chain)
        shown = [f"{name}[{DOCUMENT}]" if is_generic else name for name in parents]
        if is_generic and not parents:
            self._needed.add(HEADER_IMPORTS["Generic"])
            shown.append(f"Generic[{DOCUMENT}]")
        head = f"class {node.name}({', '.join(shown)}):" if shown else f"class {node.name}:"
        in_order = [members.pop("__init__", []), *members.values()]
        body = [line for lines in in_order for line in lines] or ["..."]
        return head + "\n" + "".join(f"    {line}\n" if line else "\n" for line in body)

    def _type_arguments(
        self, chain: list[tuple[Module, ast.ClassDef]]
    ) -> Iterator[tuple[str, tuple[Module, ast.expr]]]:
        for module, definition in chain:
            for base in definition.bases:
                target = self._library.find_class(module, base_name(base))
                if target is not None and isinstance(base, ast.Subscript):
                    for other in target[1].bases:
                        parameter = ast.unparse(other).removeprefix("Generic[").removesuffix("]")
                        if base_name(other) == "Generic" and parameter != DOCUMENT:
                            yield parameter, (module, base.slice)

    def _ready_made(self, text: str) -> list[str]:
        """Return the lines of a table's text, with this class's item type."""
        self._needed.update(origin for name, origin in HEADER_IMPORTS.items() if name in text)
        return text.replace(DOCUMENT, self._handed_out).splitlines()

    def _linearize(self, module: Module, node: ast.ClassDef) -> list[tuple[Module, ast.ClassDef]]:
        """Return a class and its bases in Python's lookup order (for the diamonds that occur here)."""
        found: list[tuple[Module, ast.ClassDef]] = [(module, node)]
        for base in node.bases:
            target = self._library.find_class(module, base_name(base))
            if target is not None:
                found += self._linearize(*target)
        names = [f"{source.name}.{definition.name}" for source, definition in found]
        return [entry for place, entry in enumerate(found) if names[place] not in names[place + 1 :]]

    def _members(
        self, module: Module, definition: ast.ClassDef, chain: list[tuple[Module, ast.ClassDef]]
    ) -> list[tuple[str, list[str]]]:
        found: list[tuple[str, list[str]]] = []
        for node in definition.body:
            if isinstance(node, Function):
                written_out = WRITTEN_OUT.get((definition.name, node.name))
                if written_out is not None:
                    found.append((node.name, self._ready_made(written_out[self.is_async])))
                elif is_public(node.name):
                    found.append((key_of(node), self._method(module, node, chain)))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if not name.startswith("_"):
                    if not isinstance(node.value, ast.Constant):
                        raise Defect(f"{module.name}: annotate {definition.name}.{name}")
                    found.append((name, [f"{name}: {type(node.value.value).__name__}"]))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                if not name.startswith("_"):
                    found.append((name, [f"{name}: {self._annotation(module, node.annotation)}"]))
        return found

    def _annotation(self, module: Module, node: ast.expr, document: str = DOCUMENT) -> str:
        return ast.unparse(Annotation(self, module, document).visit(copy.deepcopy(node)))

    def _method(self, module: Module, node: Function, chain: list[tuple[Module, ast.ClassDef]]) -> list[str]:
        if node.returns is None:
            raise Defect(f"{module.name}: {node.name} has no return annotation")
        decorators = [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]
        # A type checker sees the method itself.
        decorators = [decorator for decorator in decorators if decorator != "@database_too"]
        keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        if self.is_async and not decorators and base_name(node.returns) == "FaceResult":
            assert isinstance(node.returns, ast.Subscript)
            node = copy.copy(node)
            keyword, node.returns = "async def", node.returns.slice
        if "@contextmanager" in decorators:
            raise Defect(f"{module.name}: {node.name}: decorators that change the type are not understood")
        parameters = self._parameters(module, node, chain)
        overloads = self._overloads(module, node)
        if not overloads:
            document = self._handed_out if node.name in HANDING_OUT else DOCUMENT
            returns = self._annotation(module, node.returns, document)
            shown = [text for _, text in parameters]
            return [*decorators, *layout(f"{keyword} {node.name}", shown, returns)]
        self._needed.add(HEADER_IMPORTS["overload"])
        lines: list[str] = []
        for codec_options, returns in overloads:
            shown, has_default = [], False
            for name, text in parameters:
                if name == "codec_options":
                    text = f"codec_options: {codec_options}"
                    if codec_options == "None":
                        text += " = None"
                    elif has_default:
                        text += " = ..."
                has_default = has_default or "=" in text
                shown.append(text)
            lines += ["@overload", *decorators, *layout(f"{keyword} {node.name}", shown, returns)]
        return lines

    def _overloads(self, module: Module, node: Function) -> list[tuple[str, str]]:
        """Return the annotations of `codec_options` and the return types, if its document class decides them."""
        returns = ast.unparse(node.returns) if node.returns else ""
        if "codec_options" not in {argument.arg for argument in node.args.args} or node.name == "__init__":
            return []
        assert node.returns is not None
        if f"[{DOCUMENT}]" in returns:
            plain = other = node.returns
        elif "dict[str, Any]" in returns:
            plain = node.returns
            other = ast.parse(returns.replace("dict[str, Any]", DOCUMENT), mode="eval").body
        else:
            return []
        codec_options = f"{self.reference(module, 'CodecOptions')}[{OTHER_DOCUMENT}]"
        return [
            ("None", self._annotation(module, plain)),
            (codec_options, self._annotation(module, other, OTHER_DOCUMENT)),
        ]

    def _parameters(
        self, module: Module, node: Function, chain: list[tuple[Module, ast.ClassDef]]
    ) -> list[tuple[str, str]]:
        shown = self._own_parameters(module, node)
        for _, definition in chain:
            target = TAKES_ARGUMENTS_OF.get((definition.name, node.name))
            if target is not None:
                source, constructor = self._constructor(target)
                named = {name: text for name, text in shown if not name.startswith("*")}
                taken = self._own_parameters(source, constructor)[2:]
                known = {name for name, _ in (shown[0], *taken)}
                own = [(name, text) for name, text in named.items() if name not in known]
                star = [("*", "*")] if own else []
                shown = [shown[0], *((name, named.get(name, text)) for name, text in taken), *star, *own]
        return shown

    def _constructor(self, name: str) -> tuple[Module, Function]:
        for (definition, is_async_), (target, public) in self._library.public.items():
            if definition == name and is_async_ == self.is_async:
                module = self._library.module(target)
                for source, node in self._linearize(module, module.classes[public]):
                    for member in node.body:
                        if isinstance(member, Function) and member.name == "__init__":
                            return source, member
        raise Defect(f"{name} has no constructor to take the arguments of")

    def _own_parameters(self, module: Module, node: Function) -> list[tuple[str, str]]:
        return parameters(node.args, lambda argument, default: self._parameter(module, argument, default))

    def _parameter(self, module: Module, argument: ast.arg, default: ast.expr | None) -> tuple[str, str]:
        text = argument.arg
        if argument.annotation is not None:
            annotation = Annotation(self, module).visit(copy.deepcopy(argument.annotation))
            text += f": {ast.unparse(Accepted().visit(annotation))}"
        if default is not None:
            text += default_of(argument, default)
        return argument.arg, text


def is_public(name: str) -> bool:
    """Return whether a name is public: no underscore, or one of Python's own names."""
    is_special = name.startswith("__") and name.endswith("__")
    return (is_special or name in PUBLIC or not name.startswith("_")) and name not in LEFT_OUT


def key_of(node: Function) -> str:
    """Return the name of a member; a property's setter has its own key."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Attribute) and decorator.attr in {"setter", "deleter"}:
            return f"{node.name}.{decorator.attr}"
    return node.name


def main() -> int:
    library = Library(TARGETS)
    texts = {target: Writer(library, target).text() for target in TARGETS}
    vague = [(target, problem) for target in TARGETS for problem in unexplained(texts[target])]
    texts[twins.MODULE] = twins.text()
    stale = []
    for target, text in texts.items():
        path = path_of(target)
        if not path.exists() or path.read_text() != text:
            stale.append(path)
            if "--check" not in sys.argv:
                path.write_text(text)
    for target, problem in vague:
        print(f"{path_of(target).relative_to(SOURCES.parent)}: {problem}")
    for path in stale:
        verb = "is not current; run `make stubs`" if "--check" in sys.argv else "written"
        print(f"{path.relative_to(SOURCES.parent)}: {verb}")
    return int(bool(stale or vague) and "--check" in sys.argv)


def path_of(target: str) -> Path:
    """Return the file that has the types of a module."""
    return SOURCES.joinpath(*target.split(".")).with_suffix(".pyi")


def unexplained(text: str) -> list[str]:
    """Return the places of `Any` in a stub that have no known reason, or exceed their number."""
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        rest = line
        for pattern, _ in ANY_STAYS:
            rest = re.sub(pattern, "", rest)
        if re.search(r"\bAny\b", rest):
            problems.append(
                f"{number}: expected a type, got Any without a reason in ANY_STAYS: {line.strip()}"
            )
    count = len(re.findall(r"\bAny\b", text))
    if count >= MOST_ANY:
        problems.append(f"expected fewer than {MOST_ANY} times Any, got {count}")
    return problems


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Defect as defect:
        sys.exit(f"stubs: {defect}")
