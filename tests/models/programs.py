"""Programs of some operations of a driver, as text: any public method, with any of its options.

The methods and their arguments are read from PyMongo's signatures, so a new one is included by itself.
`driver.keywords` lists the keywords of `**kwargs`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import pymongo
import pymongo.change_stream
import pymongo.client_session
import pymongo.collection
import pymongo.command_cursor
import pymongo.cursor
import pymongo.database
from hypothesis import strategies as st

import gridfs
from driver.keywords import METHODS
from models.arguments import argument

__all__ = ["MEMBERS", "START", "Step", "programs", "script"]

# The initial documents of each program, by collection.
START = {
    "things": "[{'_id': 1, 'a': 1, 'name': 'a', 'tags': ['x', 'y']}, {'_id': 2, 'a': 2, 'name': 'A', 'tags': ['x']}, "
    "{'_id': 3, 'a': 1, 'name': 'b', 'e': {'f': 1}}, {'_id': 4, 'a': None, 'loc': [1.0, 2.0]}, "
    "{'_id': 5, 'tags': [], 'when': datetime.datetime(2020, 1, 1)}, {'_id': 6, 'a': 1.0}]",
    "other": "[{'_id': 1, 'v': 'one'}, {'_id': 2, 'v': 'two'}]",
    "typed": "[{'_id': 1, 'a': bson.binary.Binary(b'0123456789abcdef', 4), 'b': bson.decimal128.Decimal128('1.50')}, "
    "{'_id': 2, 'a': bson.binary.Binary(b'0123456789abcdef', 3), 'name': 'a', 'e': {'f': bson.int64.Int64(5)}}, "
    "{'_id': 3, 'a': datetime.datetime(2020, 1, 2, 3, 4, 5, 678000), 'when': bson.DatetimeMS(2**60)}, "
    "{'_id': 4, 'a': bson.regex.Regex('a(b', 'i'), 'tags': [bson.code.Code('x', {'y': 1}), bson.code.Code('z')]}, "
    "{'_id': 5, 'a': bson.dbref.DBRef('other', 1, x=[1]), 'b': {'$ref': 'other', '$id': 2}, 'c': {'$ref': 5}}, "
    "{'_id': 6, 'a': bson.timestamp.Timestamp(2**32 - 1, 5), 'b': [bson.min_key.MinKey(), bson.max_key.MaxKey()]}, "
    "{'_id': 7, 'a': bson.DatetimeMS(-2**60), 'b': [b'x', bson.binary.Binary(b'y', 128), float('nan'), {'': {}}]}]",
}

CLASSES: dict[str, type[Any]] = {
    "collection": pymongo.collection.Collection,
    "database": pymongo.database.Database,
    "client": pymongo.MongoClient,
    "cursor": pymongo.cursor.Cursor,
    "command cursor": pymongo.command_cursor.CommandCursor,
    "session": pymongo.client_session.ClientSession,
    "stream": pymongo.change_stream.ChangeStream,
    "bucket": gridfs.GridFSBucket,
    "files": gridfs.GridFS,
    "upload": gridfs.GridIn,
    "download": gridfs.GridOut,
}
# Methods that no program calls, and why.
LEFT_OUT = {
    ("client", "close"): "the program would be over",
    ("client", "append_metadata"): "it stays for other programs",
    ("client", "eq_props"): "PyMongo's clients compare themselves by it",
    ("client", "bulk_write"): "it needs MongoDB 8",
    ("stream", "next"): "it waits for a change",
    ("download", "fileno"): "it is of the operating system",
}
# Keywords of `**kwargs` that `driver.keywords` does not list.
MORE = {
    ("files", "put"): "filename chunk_size metadata _id encoding content_type contentType",
    ("files", "new_file"): "filename chunk_size chunkSize metadata _id encoding contentType",
    ("bucket", "find"): "filter skip limit no_cursor_timeout sort batch_size",
    ("files", "find"): "filter skip limit no_cursor_timeout sort batch_size",
    ("files", "find_one"): "sort skip",
    ("collection", "aggregate_raw_batches"): "batchSize maxTimeMS allowDiskUse collation hint",
} | {(each.owner, each.name): each.more for each in METHODS}
# Parameters whose values depend on the method.
CALLED = {
    ("upload", "size"): "size_of_a_read",
    ("download", "size"): "size_of_a_read",
    ("create_index", "name"): "index_name",
}
# Methods of a find cursor that return it on both faces.
CHAIN = (
    "sort skip limit hint batch_size comment max_time_ms max_await_time_ms collation min max allow_disk_use where "
    "max_scan"
)
ENDS = [
    "",
    "",
    "",
    ".to_list({length})",
    ".distinct({key})",
    ".explain()",
    ".next()",
    "[{at}]",
    "[{at}:{to}]",
    ".clone()",
]
OWNERS = {
    "collection": ["things"] * 8
    + ["other", "db.fresh", "db['a.b']", "db.get_collection('view')", *["db.typed"] * 3],
    "database": ["db"],
    "client": ["client"],
    "bucket": ["bucket"],
    "files": ["gfs"],
    "session": ["s"],
    "cursor": ["c", "f"],
    "command cursor": ["m"],
    "stream": ["w"],
    "upload": ["g"],
    "download": ["o"],
}
WITH_OPTIONS = ("write_concern", "read_concern", "read_preference", "codec_options")
# The name for a call's result, by the result's class.
KEPT = {
    "c": ["things.find", "things.find_raw_batches"],
    "f": ["bucket.find", "gfs.find"],
    "m": [
        "things.aggregate",
        "things.list_indexes",
        "db.list_collections",
        "db.aggregate",
        "db.cursor_command",
    ],
    "s": ["client.start_session"],
    "g": ["bucket.open_upload_stream", "gfs.new_file", "bucket.open_upload_stream_with_id"],
    "o": [
        "bucket.open_download_stream",
        "gfs.get",
        "bucket.open_download_stream_by_name",
        "gfs.get_last_version",
    ],
}
COMMON = (
    "find find_one insert_one insert_many update_one update_many replace_one delete_one delete_many "
    "find_one_and_delete find_one_and_replace find_one_and_update bulk_write aggregate count_documents distinct "
    "create_index create_indexes"
)
VALUES = [
    "things == db.things", "things != other", "bool(things)", "things['x'].full_name", "things.x.name", "db['']",
    "client['']", "things['']", "db['a b'].name", "things()", "db._x", "things._x", "db.nope()", "client.nope()",
    "list(things)", "len(things)", "hash(things) == hash(db.things)", "db == client[db.name]", "client == client",
    "copy.copy(things) == things", "db.a.b.name", "bool(db)", "client['a.b']", "client['a b']", "db['$x']",
    "db['a\\0b']", "db['.a']", "db['a..b']", "db[5]", "client[5]", "things[5]", "things[5:6]", "db.name",
    "things in [things]", "iter(db)", "next(db)", "isinstance(things, collections.abc.Iterable)",
]  # fmt: skip


@dataclass(frozen=True)
class Step:
    """An expression, and the name that keeps its value."""

    text: str
    into: str = ""

    def __str__(self) -> str:
        return f"{self.into} = {self.text}" if self.into else self.text


@dataclass
class Method:
    """A public method, its required arguments, and its optional ones."""

    owner: str
    name: str
    needed: list[str] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    takes_session: bool = False

    def key(self, parameter: str) -> str:
        """Return the name by which `argument` knows the values of a parameter."""
        return CALLED.get((self.owner, parameter)) or CALLED.get((self.name, parameter)) or parameter


def _read(owner: str) -> tuple[list[Method], list[str]]:
    """Return the public methods and the names of the properties of a class."""
    methods, properties = [], []
    for name in dir(CLASSES[owner]):
        member = inspect.getattr_static(CLASSES[owner], name)
        if name.startswith("_") or (owner, name) in LEFT_OUT:
            continue
        if not inspect.isfunction(member):
            properties.append(name)
            continue
        method = Method(owner, name)
        for each in list(inspect.signature(member).parameters.values())[1:]:
            if each.name == "session":
                method.takes_session = True
            elif each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
                (method.needed if each.default is each.empty else method.optional).append(each.name)
            elif each.kind is each.VAR_KEYWORD and name in ("find", "find_one", "find_raw_batches"):
                method.takes_session = True
        for keyword in MORE.get((owner, name), "").split():
            if keyword not in (*method.needed, *method.optional, "session"):
                method.optional.append(keyword)
        methods.append(method)
    return methods, properties


MEMBERS = {owner: _read(owner) for owner in CLASSES}
BY_NAME = {(method.owner, method.name): method for methods, _ in MEMBERS.values() for method in methods}
CHOICES = {
    owner: [method for method in methods for _ in range(4 if method.name in COMMON.split() else 1)]
    for owner, (methods, _) in MEMBERS.items()
}
SETTERS = [BY_NAME["cursor", name] for name in CHAIN.split()]
KINDS = (
    ["collection"] * 8 + ["chain"] * 5 + ["database"] * 3 + ["keep"] * 3 + ["use"] * 6 + ["session"] * 3 + [
        "bucket",
    ] * 2
    + ["files", "client", "watch", "value", "file"]
)  # fmt: skip


FILE = [
    Step("bucket.upload_from_stream_with_id(1, 'f', b'one\\ntwo and three\\n\\nfour', chunk_size_bytes=4)"),
    Step("bucket.open_download_stream(1)", "o"),
]


@dataclass
class State:
    """The program so far, as far as the next step depends on it."""

    names: set[str] = field(default_factory=set)
    is_in_transaction: bool = False

    @property
    def session(self) -> bool:
        return "s" in self.names


def _call(draw: Any, method: Method, state: State, target: str = "") -> str:
    """Return a call of the method."""
    texts = []
    for name in method.needed:
        text = draw(argument(method.key(name)))
        is_kept = (
            name in ("document", "documents", "filter", "update", "replacement", "pipeline")
            and draw(st.integers(0, 7)) == 7
        )
        texts.append(f"k({text})" if is_kept else text)
    if method.optional:
        chosen = st.lists(st.sampled_from(method.optional), unique=True, max_size=3)
        texts += [f"{name}={draw(argument(method.key(name)))}" for name in draw(chosen)]
    if method.takes_session and state.session and (state.is_in_transaction or draw(st.integers(0, 4)) == 4):
        texts.append("session=s")
    if not target:
        target = draw(st.sampled_from(OWNERS[method.owner]))
        if method.owner in ("collection", "database") and draw(st.integers(0, 4)) >= 4 - 3 * target.endswith(
            "typed"
        ):
            option = draw(st.sampled_from(WITH_OPTIONS)) if target != "db.typed" else "codec_options"
            target += f".with_options({option}={draw(argument(option))})"
    return f"{target}.{method.name}({', '.join(texts)})"


def _chain(draw: Any, state: State) -> str:
    """Return a find followed by some of the cursor's methods."""
    text = _call(draw, BY_NAME["collection", "find"], state)
    for method in draw(st.lists(st.sampled_from(SETTERS), max_size=3)):
        text += _call(draw, method, State(), "c")[1:]
    return text


def _end_of_chain(draw: Any) -> str:
    at = st.integers(-2, 6)
    names = {"length": argument("length"), "key": argument("key"), "at": at, "to": at}
    return str(draw(st.sampled_from(ENDS))).format(**{name: draw(values) for name, values in names.items()})


def _step(draw: Any, kind: str, state: State) -> Step | None:
    if kind == "chain":
        return Step(_chain(draw, state) + _end_of_chain(draw))
    if kind == "value":
        owner = draw(st.sampled_from(["collection", "database", "client"]))
        named = f"{OWNERS[owner][0]}.{draw(st.sampled_from(MEMBERS[owner][1]))}"
        return Step(draw(st.sampled_from([named, draw(st.sampled_from(VALUES))])))
    if kind == "keep":
        into = draw(st.sampled_from(list(KEPT)))
        target, _, name = draw(st.sampled_from(KEPT[into])).partition(".")
        if state.is_in_transaction and (into == "s" or target in ("bucket", "gfs")):
            return None
        owner = next(owner for owner, targets in OWNERS.items() if target in targets)
        state.names.add(into)
        is_chain = into == "c" and target == "things" and draw(st.booleans())
        text = _chain(draw, state) if is_chain else _call(draw, BY_NAME[owner, name], state, target)
        return Step(text, into)
    if kind == "watch":
        owner = draw(st.sampled_from(["collection", "database"]))
        return Step(_call(draw, BY_NAME[owner, "watch"], state))
    if kind == "use":
        held = [name for name in sorted(state.names) if name != "s"]
        if not held:
            return None
        name = draw(st.sampled_from(held))
        owner = next(owner for owner, targets in OWNERS.items() if name in targets)
        if state.is_in_transaction and (owner in ("upload", "download") or name == "f"):
            return None
        if owner == "cursor" and draw(st.integers(0, 3)) == 3:
            return Step(
                f"{name}[{draw(st.sampled_from(['0', '1', '-1', '9', '1:3', '2:2', '3:1', ':2', '1:', '::2']))}]"
            )
        methods, properties = MEMBERS[owner]
        if properties and draw(st.integers(0, 4)) == 4:
            return Step(f"{name}.{draw(st.sampled_from(properties))}")
        return Step(_call(draw, draw(st.sampled_from(methods)), State(), name))
    if kind == "session":
        return _session_step(draw, state)
    method = draw(st.sampled_from(CHOICES[kind]))
    if state.is_in_transaction and (kind in ("bucket", "files") or not method.takes_session):
        return None
    text = _call(draw, method, state)
    seconds = (
        draw(st.sampled_from(["60", "None", "1e5", "0", "-1", "'x'"]))
        if draw(st.integers(0, 14)) == 14
        else ""
    )
    return Step(f"within({seconds}, lambda: {text})" if seconds else text)


def _session_step(draw: Any, state: State) -> Step:
    if not state.session:
        state.names.add("s")
        return Step(_call(draw, BY_NAME["client", "start_session"], state), "s")
    methods, properties = MEMBERS["session"]
    usual = ["commit_transaction", "abort_transaction", "commit_transaction"]
    names = usual if state.is_in_transaction else ["start_transaction"] * 5 + ["with_transaction"] * 2 + usual
    name = draw(st.sampled_from(names * 2 + [method.name for method in methods] + properties))
    if name in properties:
        return Step(f"s.{name}")
    if name == "with_transaction":
        inner = draw(
            st.sampled_from(
                [
                    each
                    for each in CHOICES["collection"]
                    if each.takes_session and each.name in COMMON.split() and each.name != "find"
                ]
            )
        )
        call = _call(draw, inner, State())
        within = ", session=s)" if not call.endswith("()") else "session=s)"
        return Step(f"s.with_transaction(lambda s: {call[:-1]}{within})")
    if name == "bind":
        return Step("s.bind")
    state.is_in_transaction = name == "start_transaction" or (
        state.is_in_transaction and name not in ("commit_transaction", "abort_transaction", "end_session")
    )
    return Step(_call(draw, BY_NAME["session", name], State()))


@st.composite
def programs(draw: Any, most: int = 7) -> list[Step]:
    """Return the steps of a program."""
    state, steps = State(), []
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=most)):
        if kind == "file":
            steps += FILE
            state.names.add("o")
        elif (step := _step(draw, kind, state)) is not None:
            steps.append(step)
    return steps


SCRIPT = '''\
"""A program for PyMongo: `python FILE mongodb://...`, and for Mangonel: `python -m mangonel.compat FILE mongodb://...`"""

import array, asyncio, collections, copy, datetime, decimal, enum, fractions, inspect, io, numbers, re, sys, types, uuid
import bson, gridfs, pymongo
import bson.raw_bson, pymongo.change_stream, pymongo.client_session, pymongo.collation, pymongo.monitoring


class Commands(pymongo.monitoring.CommandListener):
    def started(self, event): print("    sent", event.command)
    def succeeded(self, event): pass
    def failed(self, event): print("    failed", event.failure)


async def waited(value):
    return await value if inspect.isawaitable(value) else value


async def within(seconds, call):
    with pymongo.timeout(seconds):
        return await waited(call())


async def main():
    k = lambda value: value
    client = pymongo.{client}(sys.argv[1], event_listeners=[Commands()])
    db = client.program
    await waited(client.drop_database(db))
    things, other = db.things, db.other
    await waited(things.insert_many({things}))
    await waited(other.insert_many({other}))
    await waited(db.typed.insert_many({typed}))
    bucket, gfs = gridfs.{bucket}(db), gridfs.{files}(db)
    names = {{**globals(), **locals()}}
    for text in STEPS:
        print(">>>", text)
        into, _, call = text.rpartition(" = ") if text[1:4] == " = " else ("", "", text)
        try:
            value = names[into or "_"] = await waited(eval(call, names))
            if not into and hasattr(value, "to_list"):
                value = await waited(value.to_list())
            print(type(value), value)
        except Exception as error:
            print(repr(error))


STEPS = [
{steps}
]
asyncio.run(main())
'''


def script(steps: list[Step], is_async: bool) -> str:
    """Return a program as a file to run."""
    kind = "Async" if is_async else ""
    return SCRIPT.format(
        client=f"{kind}MongoClient",
        bucket=f"{kind}GridFSBucket",
        files=f"{kind}GridFS",
        steps="\n".join(f"    {str(step)!r}," for step in steps),
        **START,
    )
