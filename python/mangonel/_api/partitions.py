"""Partitions of both faces: the definition joined with each. No logic lives here."""

from __future__ import annotations

from mangonel import _api
from mangonel._light import Any, LateClass
from mangonel._shared.coroutine_functions import coroutine_functions
from mangonel._shared.partitions.part import _Partition


class Partition(_Partition[Any]):
    _client_class = LateClass("mangonel.api", "MongoClient")


@coroutine_functions
class AsyncPartition(_Partition[Any]):
    _client_class = LateClass("mangonel.api", "AsyncMongoClient")


_api.publish(vars(), "mangonel.api")
