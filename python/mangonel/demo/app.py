"""The application: its parts, its routes, and the order in which they start and stop. Start reading here."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, StaticFileHandler

from mangonel import AsyncMongoClient
from mangonel.admin import Admin, Shown
from mangonel.demo.accounts import AccountPage, Login, Logout, LogoutEverywhere, Revoke
from mangonel.demo.base import Base, set_security_headers
from mangonel.demo.control import Elections, PrimaryAPI, RateAPI, Shop
from mangonel.demo.fanout import Fanout
from mangonel.demo.feed import Feed
from mangonel.demo.files import BUCKET, Download, FileAPI, FilesAPI, FilesPage, open_by_id
from mangonel.demo.history import History
from mangonel.demo.live import LivePage, LiveSocket, SessionSocket
from mangonel.demo.metrics import Commands, Events, Pools, Requests
from mangonel.demo.models import Account, Customer, Order, Post
from mangonel.demo.posts import PlacesAPI, PostsAPI, PostsPage
from mangonel.demo.seed import seed
from mangonel.demo.settings import Settings
from mangonel.demo.status import Health, StatusPage, StatusSocket, reading
from mangonel.gridfs import AsyncGridFSBucket
from mangonel.odm import connect
from mangonel.websessions import Cookie, WebSessions
from mangonel.websessions.events import all_of, to_logging
from mangonel.websessions.stores.mongodb import MongoStore

HERE = Path(__file__).parent
MAX_BODY = 1 << 20


@dataclass(frozen=True)
class Demo:
    """The objects that handlers share.

    Attributes:
        settings: from the command line.
        client: the process's only client.
        feed: the events of the shop, as they are written.
        fanout: sends events to the browsers that keep up.
        bucket: stores the files.
        commands, pools, requests, events, elections: counters for the status page.
        history: the counts of each of the last seconds.
        shop: the process that trades; None if the shop is closed.
        deployment: the replica set that the demo started; None for the user's own deployment.
    """

    settings: Settings
    client: AsyncMongoClient[Any]
    feed: Feed
    fanout: Fanout
    bucket: AsyncGridFSBucket
    commands: Commands
    pools: Pools
    requests: Requests
    events: Events
    elections: Elections
    history: History
    shop: Shop | None = None
    deployment: Any = None
    began: float = field(default_factory=time.monotonic)
    _tasks: set[asyncio.Future[Any]] = field(default_factory=set)

    @property
    def database(self) -> Any:
        """The database that holds everything."""
        return self.client[self.settings.database]

    def background(self, task: asyncio.Future[Any]) -> None:
        """Keep a reference to a background task; without one, the loop would let it be collected."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Missing(Base):
    """Answers every path without a route."""

    is_public = True

    async def get(self) -> None:
        """Answer 404: with a page, or with one line to a script."""
        if "text/html" not in self.request.headers.get("Accept", ""):
            raise HTTPError(404)
        self.missing()


class Static(StaticFileHandler):
    """Serves the styles and scripts of the package."""

    set_default_headers = set_security_headers

    def set_extra_headers(self, path: str) -> None:
        """Make browsers revalidate files without a version in their URL: modules import each other without one."""
        if "v" not in self.request.arguments:
            self.set_header("Cache-Control", "no-cache")


ROUTES: list[Any] = [
    (r"/", LivePage),
    (r"/posts", PostsPage),
    (r"/files", FilesPage),
    (r"/status", StatusPage),
    (r"/api/posts", PostsAPI),
    (r"/api/places", PlacesAPI),
    (r"/api/files", FilesAPI),
    (r"/api/files/([^/]+)", FileAPI),
    (r"/api/rate", RateAPI),
    (r"/api/primary/(kill|restart)", PrimaryAPI),
    (r"/health", Health),
    (r"/live", LiveSocket),
    (r"/status/live", StatusSocket),
    (r"/live/session", SessionSocket),
    (r"/login", Login),
    (r"/logout", Logout),
    (r"/logout/everywhere", LogoutEverywhere),
    (r"/account", AccountPage),
    (r"/account/revoke", Revoke),
]


def application(demo: Demo, sessions: WebSessions[Any]) -> Application:
    """Build the application from its parts."""
    return Application(
        [
            *ROUTES,
            *_admin(sessions).tornado("/admin"),
            (r"/files/([0-9a-f]{24})", Download, {"bucket": demo.bucket, "find": open_by_id}),
        ],
        default_handler_class=Missing,
        demo=demo,
        sessions=sessions,
        template_path=str(HERE / "templates"),
        static_path=str(HERE / "static"),
        static_handler_class=Static,
        websocket_ping_interval=20,
        log_function=demo.requests,
    )


def _admin(sessions: WebSessions[Any]) -> Admin:
    """Return the admin of the shop's models, for those who are logged in to the demo."""
    accounts = Shown(Account, hidden=("password", "salt"), read_only=True)
    return Admin(
        Shown(Customer, order="-joined"),
        Order,
        Post,
        accounts,
        sessions=sessions,
        # Each account of the demo belongs to its owner.
        allowed=lambda *asked: True,
        title="Demo: data",
    )


async def serve(settings: Settings, deployment: Any = None) -> None:
    """Serve until SIGTERM or Ctrl-C; visitors may kill members of our own deployment."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with AsyncExitStack() as stack:
        commands, pools, requests, events = Commands(), Pools(), Requests(), Events()
        elections = Elections()
        client: AsyncMongoClient[Any] = await stack.enter_async_context(
            AsyncMongoClient(
                settings.uri, appname="mangonel demo", event_listeners=[commands, pools, elections]
            )
        )
        connect(database=settings.database, aclient=client)
        await seed(settings.password)
        sessions = WebSessions[Any](
            MongoStore(client[settings.database].websessions),
            cookie=Cookie(secure=settings.is_behind_tls),
            trust_forwarded=settings.is_behind_tls,
            events=all_of(events, to_logging(everything=False)),
        )
        await sessions.setup()
        feed = Feed(client, settings.database, settings.ring)
        await feed.open()
        following = await stack.enter_async_context(_running(feed.run()))
        fanout = Fanout(feed)
        sending = await stack.enter_async_context(_running(fanout.run()))
        bucket = AsyncGridFSBucket(client[settings.database], BUCKET)
        shop = await stack.enter_async_context(_shop(settings)) if settings.rate > 0 else None
        history = History(partial(reading, client, commands, pools, requests, feed=feed, elections=elections))
        await stack.enter_async_context(_running(history.run()))
        counted = (commands, pools, requests, events, elections, history)
        demo = Demo(settings, client, feed, fanout, bucket, *counted, shop, deployment)
        # Bodies are small; the one handler for large ones raises its limit itself.
        server = HTTPServer(
            application(demo, sessions), xheaders=settings.is_behind_tls, max_body_size=MAX_BODY
        )
        sockets = bind_sockets(settings.port, settings.host)
        server.add_sockets(sockets)
        stack.push_async_callback(server.close_all_connections)
        stack.callback(server.stop)
        port = sockets[0].getsockname()[1]
        print(f"http://{settings.host}:{port}/", flush=True)
        stopping = await stack.enter_async_context(_running(stopped.wait()))
        await asyncio.wait((stopping, following, sending), return_when=asyncio.FIRST_COMPLETED)
        for task in (following, sending):
            if task.done():
                # These tasks recover where they can. If one ends, restarting the process is better than pages that
                # stand still.
                task.result()


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Run a task for the duration of a block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        # If the task failed, its error was the reason for leaving the block.
        await asyncio.wait((task,))


@asynccontextmanager
async def _shop(settings: Settings) -> AsyncIterator[Shop]:
    """Run the simulated shop for the duration of a block, in a process that exits when its input ends."""
    command = [
        sys.executable,
        "-m",
        "mangonel.demo.shop",
        settings.uri,
        settings.database,
        str(settings.rate),
    ]
    shop = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        yield Shop(shop, settings.rate)
    finally:
        assert shop.stdin is not None
        shop.stdin.close()
        await shop.wait()
