"""Finds and runs a real mongod: standalone or replica set, temporary or persistent, on loopback only.

>>> from mangonel import server
>>> with server.start(replica_set=1) as deployment:
...     print(deployment.uri)
mongodb://127.0.0.1:23456/?replicaSet=rs0

Must not know the driver: the driver's own tests start their servers here.
"""

from __future__ import annotations

from mangonel.server.errors import MongodNotFound, ServerError
from mangonel.server.find import find_mongod
from mangonel.server.launch import start
from mangonel.server.server import Member, Server

__all__ = ["Member", "MongodNotFound", "Server", "ServerError", "find_mongod", "start"]
