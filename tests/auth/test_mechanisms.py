"""Mechanisms that a community server lacks, against a scripted server that follows the specification."""

from __future__ import annotations

import datetime
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import bson
import pytest

from mangonel.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult, OIDCIdPInfo
from mangonel.errors import ConfigurationError, OperationFailure, ProtocolError
from tools.faces import EMPTY, TIMEOUT, Face, eventually, found, pool_sizes
from tools.messages import Request
from tools.scripted_server import Close, ScriptedServer

REFUSED = {"ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": "Authentication failed."}
EXPIRED = {"ok": 0, "code": 391, "codeName": "ReauthenticationRequired", "errmsg": "expired"}


def said(request: Request) -> Any:
    return bson.decode(request.command["payload"])


def word(document: dict[str, Any], *, done: bool) -> dict[str, Any]:
    return {"ok": 1, "conversationId": 7, "done": done, "payload": bson.encode(document)}


class Provider:
    """A server that trusts some tokens, and records which connection sent which."""

    def __init__(self, server: ScriptedServer, *tokens: str) -> None:
        self.trusted = set(tokens)
        self.seen: list[str] = []
        server.on("saslStart", self.start)
        server.on("saslContinue", self.judge)
        for name in ("hello", "isMaster"):
            server.on(name, self.hello)
        server.on("find", EMPTY)
        self._server = server

    def start(self, request: Request) -> dict[str, Any]:
        assert request.command["mechanism"] == "MONGODB-OIDC"
        assert request.command["$db"] == "$external"
        if "jwt" in said(request):
            return self.judge(request)
        return word({"issuer": "https://idp.example", "clientId": "app", "requestScopes": ["a"]}, done=False)

    def judge(self, request: Request) -> dict[str, Any]:
        token = said(request)["jwt"]
        self.seen.append(token)
        return word({}, done=True) if token in self.trusted else REFUSED

    def hello(self, request: Request) -> Any:
        answer = self._server._hello(request)
        if "maxAwaitTimeMS" in request.command:
            return self._server._default(request)
        speculative = request.command.get("speculativeAuthenticate")
        if speculative is not None:
            token = bson.decode(speculative["payload"])["jwt"]
            self.seen.append(f"hello {token}")
            if token in self.trusted:
                answer["speculativeAuthenticate"] = word({}, done=True)
        return answer


class Tokens(OIDCCallback):
    """Returns tokens in order, then repeats the last one; records its calls."""

    def __init__(self, *tokens: str, refresh_tokens: bool = False) -> None:
        self._tokens = list(tokens)
        self._refreshes = refresh_tokens
        self.contexts: list[OIDCCallbackContext] = []
        self.running = 0
        self.most_running = 0

    def __repr__(self) -> str:
        # This text is part of test names, which must be the same in each worker.
        return f"Tokens({', '.join(self._tokens)})"

    def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.contexts.append(context)
        token = self._tokens.pop(0) if len(self._tokens) > 1 else self._tokens[0]
        self.running -= 1
        return OIDCCallbackResult(token, refresh_token=f"refresh-{token}" if self._refreshes else None)


class LateTokens(Tokens):
    """The same as a coroutine function."""

    async def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:  # type: ignore[override]
        import asyncio

        await asyncio.sleep(0.01)
        return super().fetch(context)


def oidc(face: Face, server: ScriptedServer, properties: dict[str, Any], **options: Any) -> Any:
    return face.client(
        server.uri, authMechanism="MONGODB-OIDC", authMechanismProperties=properties, **options
    )


def find(face: Face, client: Any) -> Any:
    return face.run(lambda: client.shop.orders.find_one())


def test_a_machine_token_is_fetched_once_and_said_inside_the_next_hello(
    face: Face, scripted_server: ScriptedServer
) -> None:
    provider, tokens = Provider(scripted_server, "one"), Tokens("one")
    client = oidc(face, scripted_server, {"OIDC_CALLBACK": tokens}, username="principal")
    find(face, client)
    scripted_server.once("find", Close())
    find(face, client)
    assert provider.seen == ["one", "hello one"]
    (context,) = tokens.contexts
    assert (context.timeout_seconds, context.username, context.version) == (60, "principal", 1)
    assert context.refresh_token is context.idp_info is None


def test_a_callback_is_told_how_much_time_the_operation_has_left(
    face: Face, scripted_server: ScriptedServer
) -> None:
    Provider(scripted_server, "one")
    tokens = Tokens("one")
    find(face, oidc(face, scripted_server, {"OIDC_CALLBACK": tokens}, timeoutMS=50_000))
    assert 0 < tokens.contexts[0].timeout_seconds <= 50


def test_a_coroutine_function_gives_tokens_on_asyncio(
    async_face: Face, scripted_server: ScriptedServer
) -> None:
    provider = Provider(scripted_server, "one")
    find(async_face, oidc(async_face, scripted_server, {"OIDC_CALLBACK": LateTokens("one")}))
    assert provider.seen == ["one"]


def test_a_coroutine_function_is_refused_on_the_blocking_face(
    blocking_face: Face, scripted_server: ScriptedServer
) -> None:
    Provider(scripted_server, "one")
    with pytest.raises(TypeError, match="use AsyncMongoClient"):
        find(blocking_face, oidc(blocking_face, scripted_server, {"OIDC_CALLBACK": LateTokens("one")}))


def test_an_expired_token_is_replaced_on_the_same_connection_and_the_command_is_sent_again(
    face: Face, scripted_server: ScriptedServer
) -> None:
    provider, tokens = Provider(scripted_server, "one", "two"), Tokens("one", "two")
    client = oidc(face, scripted_server, {"OIDC_CALLBACK": tokens})
    scripted_server.once("insert", EXPIRED)
    scripted_server.on("insert", {"ok": 1, "n": 1})
    face.run(lambda: client.shop.orders.insert_one({"_id": 1}))
    assert provider.seen == ["one", "two"]
    first, second = scripted_server.received("insert")
    assert first.connection == second.connection
    assert first.command == {**second.command, "lsid": first.command["lsid"]}
    assert first.documents == second.documents == [{"_id": 1}]


def test_a_server_that_always_asks_again_is_given_up(face: Face, scripted_server: ScriptedServer) -> None:
    Provider(scripted_server, "one")
    client = oidc(face, scripted_server, {"OIDC_CALLBACK": Tokens("one")})
    scripted_server.on("find", EXPIRED)
    with pytest.raises(OperationFailure) as caught:
        find(face, client)
    assert caught.value.code == 391
    assert len(scripted_server.received("find")) == 2


def test_a_remembered_token_that_is_refused_is_replaced_once(
    face: Face, scripted_server: ScriptedServer
) -> None:
    provider, tokens = Provider(scripted_server, "one", "two"), Tokens("one", "two")
    client = oidc(face, scripted_server, {"OIDC_CALLBACK": tokens})
    find(face, client)
    provider.trusted.remove("one")
    scripted_server.once("find", Close())
    find(face, client)
    assert provider.seen == ["one", "hello one", "one", "two"]


def test_a_new_token_that_is_refused_is_an_error(face: Face, scripted_server: ScriptedServer) -> None:
    provider = Provider(scripted_server)
    client = oidc(face, scripted_server, {"OIDC_CALLBACK": Tokens("bad-token")})
    with pytest.raises(OperationFailure, match="MONGODB-OIDC") as caught:
        find(face, client)
    assert caught.value.code == 18
    assert provider.seen == ["bad-token"]
    assert "bad-token" not in str(caught.value)


def test_what_a_callback_raises_is_raised_by_the_operation(
    face: Face, scripted_server: ScriptedServer
) -> None:
    class Broken(OIDCCallback):
        def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
            raise LookupError("no token today")

    Provider(scripted_server)
    client = oidc(face, scripted_server, {"OIDC_CALLBACK": Broken()})
    with pytest.raises(LookupError, match="no token today"):
        find(face, client)
    assert pool_sizes(client) == (0, 0, 0, 0)


def test_a_callback_must_return_its_result_class(face: Face, scripted_server: ScriptedServer) -> None:
    class Wrong(OIDCCallback):
        def fetch(self, context: OIDCCallbackContext) -> Any:
            return "secret-token"

    Provider(scripted_server)
    with pytest.raises(TypeError, match="OIDCCallbackResult, got str") as caught:
        find(face, oidc(face, scripted_server, {"OIDC_CALLBACK": Wrong()}))
    assert "secret-token" not in str(caught.value)


def test_many_connections_fetch_one_token(face: Face, scripted_server: ScriptedServer) -> None:
    provider, tokens = Provider(scripted_server, "one"), Tokens("one")
    client = oidc(face, scripted_server, {"OIDC_CALLBACK": tokens}, maxConnecting=10)
    started = [face.start(lambda: client.shop.orders.find_one()) for _ in range(10)]
    for future in started:
        future.result(TIMEOUT)
    assert len(tokens.contexts) == 1
    assert {token.removeprefix("hello ") for token in provider.seen} == {"one"}


class Outage(Tokens):
    """Raises an exception, as an application's code may, for as long as there is an outage."""

    is_out = False
    failed = 0

    def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        if self.is_out:
            self.failed += 1
            raise RuntimeError("the provider of tokens cannot be reached")
        return super().fetch(context)


def test_cursors_are_killed_again_after_a_callback_has_failed_in_the_background(
    face: Face, scripted_server: ScriptedServer
) -> None:
    provider, tokens = Provider(scripted_server, "one"), Outage("one")
    scripted_server.on("killCursors", {"ok": 1})
    client = oidc(face, scripted_server, {"OIDC_CALLBACK": tokens})

    def drop_cursor(id: int) -> None:
        scripted_server.once("find", found({"_id": 1}, id=id))
        assert face.next(client.shop.orders.find()) == {"_id": 1}

    find(face, client)
    # Background work has a connection of its own, and the server refuses that connection's token.
    provider.trusted.clear()
    tokens.is_out = True
    drop_cursor(77)
    eventually(lambda: tokens.failed, "the callback's failure")
    provider.trusted.add("one")
    tokens.is_out = False
    drop_cursor(78)
    eventually(lambda: scripted_server.received("killCursors"), "the end of the second cursor")
    assert scripted_server.received("killCursors")[0].command["cursors"] == [78]


def test_a_pool_is_filled_again_after_a_callback_has_failed(
    face: Face, scripted_server: ScriptedServer
) -> None:
    Provider(scripted_server, "one")
    tokens = Outage("one")
    tokens.is_out = True
    client = oidc(face, scripted_server, {"OIDC_CALLBACK": tokens}, minPoolSize=2)
    with pytest.raises(RuntimeError, match="cannot be reached"):
        find(face, client)
    eventually(lambda: tokens.failed > 1, "the failure of a connection that fills the pool")
    tokens.is_out = False
    eventually(lambda: pool_sizes(client)[0] == 2, "two idle connections")


def test_a_person_is_asked_for_after_the_server_named_the_provider(
    face: Face, scripted_server: ScriptedServer
) -> None:
    provider, tokens = Provider(scripted_server, "one"), Tokens("one", refresh_tokens=True)
    find(face, oidc(face, scripted_server, {"OIDC_HUMAN_CALLBACK": tokens}, username="ada"))
    (start,) = scripted_server.received("saslStart")
    assert said(start) == {"n": "ada"}
    (context,) = tokens.contexts
    assert context.idp_info == OIDCIdPInfo("https://idp.example", "app", ["a"])
    assert context.timeout_seconds == 300
    assert provider.seen == ["one"]
    (more,) = scripted_server.received("saslContinue")
    assert more.command["conversationId"] == 7


def test_an_expired_token_of_a_person_is_refreshed_without_a_new_login(
    face: Face, scripted_server: ScriptedServer
) -> None:
    provider = Provider(scripted_server, "one", "two")
    tokens = Tokens("one", "two", refresh_tokens=True)
    client = oidc(face, scripted_server, {"OIDC_HUMAN_CALLBACK": tokens})
    scripted_server.once("find", EXPIRED)
    find(face, client)
    assert provider.seen == ["one", "two"]
    assert tokens.contexts[1].refresh_token == "refresh-one"
    assert len(scripted_server.received("saslContinue")) == 1


def test_a_refreshed_token_that_is_refused_begins_the_login_anew(
    face: Face, scripted_server: ScriptedServer
) -> None:
    provider = Provider(scripted_server, "one", "three")
    tokens = Tokens("one", "two", "three", refresh_tokens=True)
    client = oidc(face, scripted_server, {"OIDC_HUMAN_CALLBACK": tokens})
    scripted_server.once("find", EXPIRED)
    find(face, client)
    assert provider.seen == ["one", "two", "three"]
    assert [context.refresh_token for context in tokens.contexts] == [None, "refresh-one", None]


@pytest.mark.parametrize(
    ("allowed", "is_allowed"),
    [
        (None, True),
        (["127.0.0.1"], True),
        (["*.0.0.1"], True),
        ([], False),
        (["*.example"], False),
        (["*0.0.1"], False),
    ],
)
def test_a_persons_token_goes_to_allowed_hosts_alone(
    face: Face, scripted_server: ScriptedServer, allowed: list[str] | None, is_allowed: bool
) -> None:
    provider = Provider(scripted_server, "one")
    properties: dict[str, Any] = {"OIDC_HUMAN_CALLBACK": Tokens("one")}
    if allowed is not None:
        properties["ALLOWED_HOSTS"] = allowed
    client = oidc(face, scripted_server, properties)
    if is_allowed:
        find(face, client)
        return
    with pytest.raises(ConfigurationError, match="ALLOWED_HOSTS"):
        find(face, client)
    assert provider.seen == []


@pytest.mark.parametrize(
    ("environment", "variable"),
    [
        ("test", "OIDC_TOKEN_FILE"),
        ("k8s", "AZURE_FEDERATED_TOKEN_FILE"),
        ("k8s", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    ],
)
def test_environments_with_files_read_their_token(
    face: Face,
    scripted_server: ScriptedServer,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    environment: str,
    variable: str,
) -> None:
    provider = Provider(scripted_server, "one")
    (tmp_path / "token").write_text("one\n")
    monkeypatch.setenv(variable, str(tmp_path / "token"))
    find(face, oidc(face, scripted_server, {"ENVIRONMENT": environment}))
    assert provider.seen == ["one"]


@pytest.mark.parametrize("environment", ["azure", "gcp"])
def test_environments_with_services_ask_them_without_a_proxy(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, environment: str
) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from mangonel._auth import environments

    asked: list[tuple[str, Any]] = []

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers))
            body = b'{"access_token": "one", "expires_in": "3599"}' if environment == "azure" else b"one"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    service = HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    try:
        monkeypatch.setattr(
            environments, f"_{environment.upper()}", f"http://127.0.0.1:{service.server_port}/token"
        )
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")
        provider = Provider(scripted_server, "one")
        properties = {"ENVIRONMENT": environment, "TOKEN_RESOURCE": "api://a b"}
        find(face, oidc(face, scripted_server, properties, username="client"))
    finally:
        service.shutdown()
        service.server_close()
    assert provider.seen == ["one"]
    ((path, headers),) = asked
    if environment == "azure":
        assert path == "/token?api-version=2018-02-01&resource=api%3A%2F%2Fa+b&client_id=client"
        assert headers["Metadata"] == "true"
    else:
        assert path == "/token?audience=api%3A%2F%2Fa+b"
        assert headers["Metadata-Flavor"] == "Google"


# MONGODB-AWS

KEY, SECRET, SESSION = "AKIAEXAMPLEKEY", "aws/secret+key", "aws-session-token"
HOST = "sts.eu-west-1.amazonaws.com"


class SecurityTokenService:
    """A server that checks signatures as AWS does: botocore's signer signs the received request again."""

    def __init__(self, server: ScriptedServer) -> None:
        server.on("saslStart", self.start)
        server.on("saslContinue", self.judge)
        server.on("find", EMPTY)
        self.host = HOST
        self.nonce: Callable[[bytes], bytes] = lambda nonce: nonce + os.urandom(32)
        self.sent = b""
        self.last: dict[str, Any] = {}

    def start(self, request: Request) -> dict[str, Any]:
        assert request.command["mechanism"] == "MONGODB-AWS"
        first = said(request)
        assert first["p"] == 110
        assert len(first["r"]) == 32
        self.sent = self.nonce(first["r"])
        return word({"s": self.sent, "h": self.host}, done=False)

    def judge(self, request: Request) -> dict[str, Any]:
        self.last = said(request)
        return word({}, done=True) if self.last["a"] == self.expected() else REFUSED

    def expected(self) -> str:
        from base64 import b64encode

        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        body = "Action=GetCallerIdentity&Version=2011-06-15"
        request = AWSRequest(
            method="POST",
            url=f"https://{self.host}/",
            data=body,
            headers={
                "Content-Type": "application/x-www-form-urlencoded",
                "Content-Length": str(len(body)),
                "Host": self.host,
                "X-MongoDB-Server-Nonce": b64encode(self.sent).decode(),
                "X-MongoDB-GS2-CB-Flag": "n",
                "X-Amz-Date": self.last["d"],
            },
        )
        if "t" in self.last:
            request.headers["X-Amz-Security-Token"] = self.last["t"]
        request.context["timestamp"] = self.last["d"]
        when = datetime.datetime.strptime(self.last["d"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
        assert abs((datetime.datetime.now(datetime.UTC) - when).total_seconds()) < 60
        signer = SigV4Auth(Credentials(KEY, SECRET, self.last.get("t")), "sts", "eu-west-1")
        to_sign = signer.string_to_sign(request, signer.canonical_request(request))
        scope = f"{KEY}/{self.last['d'][:8]}/eu-west-1/sts/aws4_request"
        names = signer.signed_headers(signer.headers_to_sign(request))
        signature = signer.signature(to_sign, request)
        return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={signature}"


@pytest.fixture
def aws(scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> SecurityTokenService:
    """The scripted server, and a machine without AWS credentials."""
    pytest.importorskip("botocore")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    return SecurityTokenService(scripted_server)


@pytest.mark.parametrize("token", [None, SESSION])
def test_aws_keys_of_the_options_sign(
    face: Face, scripted_server: ScriptedServer, aws: SecurityTokenService, token: str | None
) -> None:
    properties = {"AWS_SESSION_TOKEN": token} if token else {}
    client = face.client(
        scripted_server.uri,
        username=KEY,
        password=SECRET,
        authMechanism="MONGODB-AWS",
        authMechanismProperties=properties,
    )
    find(face, client)
    assert aws.last.get("t") == token
    assert "x-mongodb-server-nonce" in aws.last["a"]


def test_aws_without_botocore_says_what_to_install_and_sends_nothing(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    client = face.client(scripted_server.uri, username=KEY, password=SECRET, authMechanism="MONGODB-AWS")
    with pytest.raises(ConfigurationError, match=r"MONGODB-AWS authentication requires .*install with"):
        find(face, client)
    assert scripted_server.received("saslStart") == []


def test_aws_keys_of_the_environment_sign(
    face: Face, scripted_server: ScriptedServer, aws: SecurityTokenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    find(face, face.client(scripted_server.uri, authMechanism="MONGODB-AWS"))
    assert aws.last["t"] == SESSION


def test_a_wrong_aws_secret_is_refused_by_the_server(
    face: Face, scripted_server: ScriptedServer, aws: SecurityTokenService
) -> None:
    client = face.client(scripted_server.uri, username=KEY, password="other", authMechanism="MONGODB-AWS")
    with pytest.raises(OperationFailure, match="MONGODB-AWS") as caught:
        find(face, client)
    assert caught.value.code == 18


def test_a_machine_without_aws_credentials_is_told_so(
    face: Face, scripted_server: ScriptedServer, aws: SecurityTokenService
) -> None:
    client = face.client(scripted_server.uri, authMechanism="MONGODB-AWS")
    with pytest.raises(ConfigurationError, match="no AWS credentials"):
        find(face, client)


@pytest.mark.parametrize(
    ("host", "nonce"),
    [
        ("", None),
        ("a..b", None),
        ("a" * 256, None),
        (HOST, lambda nonce: nonce),
        (HOST, lambda nonce: os.urandom(64)),
        (HOST, lambda nonce: nonce + bytes(33)),
    ],
    ids=["empty host", "hole in host", "long host", "short nonce", "foreign nonce", "long nonce"],
)
def test_nothing_is_signed_for_a_server_that_breaks_the_conversation(
    face: Face, scripted_server: ScriptedServer, aws: SecurityTokenService, host: str, nonce: Any
) -> None:
    aws.host = host
    aws.nonce = nonce or aws.nonce
    client = face.client(scripted_server.uri, username=KEY, password=SECRET, authMechanism="MONGODB-AWS")
    with pytest.raises(ProtocolError):
        find(face, client)
    assert scripted_server.received("saslContinue") == []


# PLAIN and MONGODB-X509


@pytest.mark.parametrize(("path", "source"), [("", "$external"), ("ldap", "ldap")])
def test_plain_sends_name_and_password_in_one_message(
    face: Face, scripted_server: ScriptedServer, path: str, source: str
) -> None:
    scripted_server.on("saslStart", {"ok": 1, "done": True, "conversationId": 1, "payload": b""})
    scripted_server.on("find", EMPTY)
    uri = f"mongodb://user:p%40ss@{scripted_server.address}/{path}?directConnection=true&authMechanism=PLAIN"
    find(face, face.client(uri))
    (start,) = scripted_server.received("saslStart")
    assert start.command["payload"] == b"\0user\0p@ss"
    assert start.command["$db"] == source
    assert all("speculativeAuthenticate" not in request.command for request in scripted_server.requests)


@pytest.mark.parametrize("user", [None, "CN=ada,O=engines"])
@pytest.mark.parametrize("is_speculative", [True, False])
def test_x509_names_the_user_or_lets_the_certificate_do_it(
    face: Face, scripted_server: ScriptedServer, user: str | None, is_speculative: bool
) -> None:
    if is_speculative:
        scripted_server.hello["speculativeAuthenticate"] = {"dbname": "$external", "user": user or "CN=ada"}
    scripted_server.on("authenticate", {"ok": 1})
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, authMechanism="MONGODB-X509", username=user)
    find(face, client)
    expected = {"authenticate": 1, "mechanism": "MONGODB-X509", **({"user": user} if user else {})}
    hellos = [request.command.get("speculativeAuthenticate") for request in scripted_server.requests]
    assert {**expected, "db": "$external"} in hellos
    behind = [
        dict(list(request.command.items())[: len(expected)])
        for request in scripted_server.received("authenticate")
    ]
    assert behind == ([] if is_speculative else [expected])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"authMechanism": "GSSAPI"}, "requires a username"),
        ({"authMechanism": "GSSAPI", "username": "u", "authSource": "admin"}, "external"),
        ({"authMechanism": "SCRAM-SHA-256", "username": "u"}, "password is required"),
        ({"authMechanism": "SCRAM-SHA-256", "password": "p"}, "requires a username"),
        ({"authMechanism": "PLAIN", "username": "u"}, "requires a password"),
        ({"authMechanism": "PLAIN", "username": "u\0x", "password": "p"}, "username without NUL"),
        ({"authMechanism": "PLAIN", "username": "u", "password": "p\0x"}, "password without NUL"),
        ({"authMechanism": "MONGODB-X509", "password": "p"}, "not supported by MONGODB-X509"),
        ({"authMechanism": "MONGODB-X509", "authSource": "admin"}, "external"),
        ({"authMechanism": "MONGODB-AWS", "username": "u"}, "without a password"),
        ({"authMechanism": "MONGODB-AWS", "authSource": "admin"}, "external"),
        ({"authMechanism": "MONGODB-OIDC"}, "exactly one"),
        (
            {
                "authMechanism": "MONGODB-OIDC",
                "authMechanismProperties": {"ENVIRONMENT": "test", "OIDC_CALLBACK": Tokens("")},
            },
            "exactly one",
        ),
        (
            {"authMechanism": "MONGODB-OIDC", "authMechanismProperties": {"ENVIRONMENT": "mars"}},
            "unrecognized",
        ),
        (
            {"authMechanism": "MONGODB-OIDC", "authMechanismProperties": {"ENVIRONMENT": "azure"}},
            "TOKEN_RESOURCE",
        ),
        (
            {
                "authMechanism": "MONGODB-OIDC",
                "password": "p",
                "authMechanismProperties": {"OIDC_CALLBACK": Tokens("")},
            },
            "password is not supported",
        ),
        (
            {
                "authMechanism": "MONGODB-OIDC",
                "authMechanismProperties": {"OIDC_CALLBACK": Tokens(""), "ALLOWED_HOSTS": ["a"]},
            },
            "ALLOWED_HOSTS",
        ),
    ],
    ids=str,
)
def test_options_that_no_mechanism_can_use_are_refused_before_anything_is_sent(
    blocking_face: Face, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigurationError, ValueError), match=message):
        blocking_face.client("mongodb://a.example", **options)
