"""Internal names that programs import from PyMongo behave as PyMongo's own do."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import bson
import pymongo.common
import pymongo.errors
import pymongo.helpers_shared
import pymongo.saslprep
import pymongo.server_selectors
import pymongo.synchronous.server
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.hello import Hello as PeerHello
from pymongo.server_description import ServerDescription as PeerServer
from pymongo.topology_description import TopologyDescription as PeerTopology

from mangonel import bson as mangonel_bson
from mangonel import errors
from mangonel.compat import _internals, _server_selectors
from mangonel.hello import Hello
from mangonel.server_description import ServerDescription
from mangonel.topology_description import TopologyDescription

VALUES = [
    *(None, True, False, 0, 1, -1, 7, 90, 10**12, 0.0, 0.5, -2.5, 1e9, float("inf")),
    *(
        "",
        "0",
        "1",
        "-1",
        "7",
        "0.5",
        "true",
        "false",
        "x",
        "majority",
        "a" * 200,
        "standard",
        "csharpLegacy",
    ),
    *([], {}, [1], dict, list, int, print, b"x", object(), datetime.UTC),
]


def outcome(call: Any, *args: Any) -> tuple[str, Any]:
    """Return a call's result, or the class of its error."""
    try:
        return "value", call(*args)
    except Exception as error:
        return "error", type(error).__name__


@pytest.mark.parametrize("name", sorted(_internals._CHECKS))
def test_a_check_takes_and_refuses_what_pymongos_does(name: str) -> None:
    own, peer = getattr(_internals, name), getattr(pymongo.common, name)
    assert [outcome(own, "option", value) for value in VALUES] == [
        outcome(peer, "option", value) for value in VALUES
    ]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *itertools.product(["maxPoolSize", "MAXPOOLSIZE"], [5, "5", -1, "x", None]),
        *itertools.product(
            ["connectTimeoutMS", "retryWrites", "w", "readPreference"], [5, "true", "nearest", ""]
        ),
        ("nothing", 1),
    ],
)
def test_validate_finds_the_check_of_an_option(option: str, value: Any) -> None:
    assert outcome(_internals.validate, option, value) == outcome(pymongo.common.validate, option, value)


def test_an_unknown_option_is_told() -> None:
    words = []
    for module, kind in ((_internals, errors), (pymongo.common, pymongo.errors)):
        with pytest.raises(kind.ConfigurationError) as caught:
            module.raise_config_error("retry", ["retryReads"])  # type: ignore[attr-defined]  # of either module
        words.append(str(caught.value))
    assert words[0] == words[1]


REPLIES = [
    {"ok": 1},
    {"ok": 1.0, "writeConcernError": {"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}}},
    {"ok": 1, "writeConcernError": {"code": 100, "errmsg": "few"}, "errorLabels": ["RetryableWriteError"]},
    *(
        {"ok": 0, "errmsg": "refused", "code": code, "errorLabels": ["x"]}
        for code in (11000, 11001, 12582, 50, 43, 10107, 13435, 91, 59, 1)
    ),
    {"ok": 0, "errmsg": "not master"},
    {"ok": 0, "errmsg": "node is recovering"},
    {"ok": 0, "errmsg": "ns missing"},
    {"$err": "no command", "code": 5},
]


@pytest.mark.parametrize("reply", REPLIES, ids=str)
def test_a_reply_raises_the_error_that_pymongo_raises(reply: dict[str, Any]) -> None:
    def shown(module: Any, *more: Any) -> Any:
        try:
            module._check_command_response({**reply}, 17, *more)
        except Exception as error:
            told: Any = error
            return type(error).__name__, getattr(told, "code", None), told.details, sorted(told._error_labels)
        return None

    for more in ([], [None, True], [[1, "ns missing"]], [[11000], True]):
        assert shown(_internals, *more) == shown(pymongo.helpers_shared, *more)


def test_documents_become_what_json_writes() -> None:
    from bson import json_util

    from mangonel.bson import json_util as own

    document = {
        "i": bson.ObjectId(b"0" * 12),
        "n": [1, 2**40, {"d": bson.Decimal128("1")}],
        "t": "x",
        "b": b"y",
        "z": None,
    }
    mine = {**document, "i": mangonel_bson.ObjectId(b"0" * 12)}
    mine["n"] = [1, 2**40, {"d": mangonel_bson.Decimal128("1")}]
    for name in ("DEFAULT_JSON_OPTIONS", "RELAXED_JSON_OPTIONS", "CANONICAL_JSON_OPTIONS"):
        found = _internals._json_convert(mine, getattr(own, name))
        assert found == json_util._json_convert(document, getattr(json_util, name))


TEXTS = st.text(
    st.sampled_from(
        "aZ1 \u00a0\u00ad\u00aa\u2168\u0007\u0627\u0031\u05d0\u3000\u1806\u0221\ud7ffé\u0301\u2029"
    )
)


@given(TEXTS, st.booleans())
def test_a_password_is_prepared_as_by_pymongo(text: str, strict: bool) -> None:
    # PyMongo's own fails on text that becomes empty.
    found = outcome(pymongo.saslprep.saslprep, text, strict)
    if found != ("error", "IndexError"):
        assert outcome(_internals.saslprep, text, strict) == found


def test_a_password_of_bytes_stays_as_it_is() -> None:
    assert _internals.saslprep(b"\xff") == b"\xff"
    assert _internals.saslprep("I\u00adX") == "IX"
    assert _internals.saslprep("\u00ad") == ""


KINDS: dict[str, dict[str, Any]] = {
    "primary": {"isWritablePrimary": True, "setName": "rs", "tags": {"dc": "a", "rack": "1"}},
    "secondary": {"secondary": True, "setName": "rs", "tags": {"dc": "a"}},
    "late": {"secondary": True, "setName": "rs", "tags": {"dc": "b"}},
    "arbiter": {"arbiterOnly": True, "setName": "rs"},
    "router": {"msg": "isdbgrid", "isWritablePrimary": True},
}


def selection_of(kinds: list[str], hello: Any, server: Any, topology: Any, module: Any) -> Any:
    """A selection of servers of these kinds, of one driver."""
    servers = {}
    for number, kind in enumerate([*kinds, None]):
        address = ("h", number)
        reply = None
        if kind is not None:
            now = datetime.datetime(2026, 1, 1 + number)
            fields = {
                "ok": 1,
                "maxWireVersion": 17 + number,
                "lastWrite": {"lastWriteDate": now},
                **KINDS[kind],
            }
            reply = hello({**fields, "hosts": ["h:0"]})
        servers[address] = server(address, reply)
    return module.Selection.from_topology_description(topology(2, servers, "rs", None, None, *TAIL[module]))


TAIL: dict[Any, tuple[Any, ...]] = {}


@pytest.mark.parametrize(
    "kinds",
    [[], ["secondary", "late"], ["primary", "secondary", "late", "arbiter"], ["arbiter"], ["router", "late"]],
    ids=str,
)
def test_selectors_choose_the_servers_that_pymongos_choose(kinds: list[str]) -> None:
    from types import SimpleNamespace

    settings = SimpleNamespace(heartbeat_frequency=10, _topology_id=None)
    TAIL.update({_server_selectors: (), pymongo.server_selectors: (settings,)})
    own = selection_of(kinds, Hello, ServerDescription, TopologyDescription, _server_selectors)
    peer = selection_of(kinds, PeerHello, PeerServer, PeerTopology, pymongo.server_selectors)

    def shown(selection: Any) -> Any:
        latest = selection.secondary_with_max_last_write_date()
        return (
            [each.address for each in selection.server_descriptions],
            bool(selection),
            selection.common_wire_version,
            selection.topology_type,
            selection.primary and selection.primary.address,
            [each.address for each in selection.primary_selection],
            latest and latest.address,
        )

    assert shown(own) == shown(peer)
    tags: list[list[dict[str, str]]] = [
        [],
        [{}],
        [{"dc": "b"}, {}],
        [{"dc": "x"}],
        [{"dc": "a", "rack": "1"}, {"dc": "a"}],
    ]
    for name in (each for each in dir(pymongo.server_selectors) if each.endswith("_server_selector")):
        mine, theirs = getattr(_server_selectors, name), getattr(pymongo.server_selectors, name)
        if "tags" not in name:
            assert shown(mine(own)) == shown(theirs(peer)), name
            continue
        for tag_sets in tags:
            assert shown(mine(tag_sets, own)) == shown(theirs(tag_sets, peer)), (name, tag_sets)


@pytest.mark.parametrize("name", ["Server", "Pool", "Connection", "AsyncConnection"])
def test_a_server_pool_or_connection_is_a_name_alone(name: str) -> None:
    kind = getattr(_internals, name)
    assert not isinstance(object(), kind)
    with pytest.raises(
        NotImplementedError, match=f"{name}: PyMongo's servers, pools and connections are only names"
    ):
        kind(("localhost", 27017))
    # PyMongo's own test helpers define such a class when they are imported, and others may.
    own = type("Own", (kind,), {"__init__": lambda self, *args: None})
    with pytest.raises(NotImplementedError, match="Own: PyMongo's servers"):
        own(("localhost", 27017))


@pytest.mark.parametrize("name", ["run_operation", "run_operation_with_response", "checkout"])
def test_a_server_lacks_what_pymongos_lacks_so_that_an_agent_that_wraps_it_fails_likewise(name: str) -> None:
    refused = outcome(getattr, pymongo.synchronous.server.Server, name)
    assert outcome(getattr, _internals.Server, name) == refused == ("error", "AttributeError")
