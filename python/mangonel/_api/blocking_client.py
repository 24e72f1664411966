"""The blocking client by itself, for programs that need nothing else. No logic lives here."""

from __future__ import annotations

from mangonel import _api
from mangonel._faces.blocking import BlockingPort
from mangonel._light import Any, LateClass
from mangonel._shared.client.client import _MongoClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class MongoClient(_MongoClient[Any]):
    _port_class = BlockingPort
    _database_class = LateClass("mangonel.api", "Database")
    _session_class = LateClass("mangonel.api", "ClientSession")
    _change_stream_class = LateClass("mangonel.api", "ClusterChangeStream")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


_api.publish(vars(), "mangonel.api")
