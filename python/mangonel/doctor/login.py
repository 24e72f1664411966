"""The login step: whether the user can authenticate, and if not, why. Then reads server details. Blocks.

Spec: auth. A server never tells a wrong password from an unknown user. But its reply to hello lists the mechanisms that
a user of a database may use.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

from mangonel.doctor.connection import Connection, NotMongoDB, open_connection
from mangonel.doctor.report import FAILURE, NOTE, OK, SKIPPED, WARNING, Report
from mangonel.doctor.sight import Sight
from mangonel.doctor.target import Target
from mangonel.errors import ConfigurationError, OperationFailure, PyMongoError
from mangonel.read_preferences import ReadPreference

_UNAUTHORIZED, _AUTHENTICATION_FAILED, _MECHANISM_UNAVAILABLE = 13, 18, 334
_SCRAM = ("SCRAM-SHA-1", "SCRAM-SHA-256")
_ASKED = ("DEFAULT", *_SCRAM)
# A secondary answers as well as the primary.
ANY_MEMBER = ReadPreference.PRIMARY_PREFERRED


def report_login(sights: list[Sight], target: Target, report: Report, timeout: float) -> None:
    """Log in at each server with users, report the result, and record details of the servers."""
    # An arbiter holds no data, so it knows no users.
    sights = [sight for sight in sights if sight.kind not in ("RSArbiter", "RSGhost")]
    credential = target.options._credentials
    is_explained = False
    got_in = 0
    for sight in sights:
        try:
            seen = _look_inside(sight, target, timeout)
        except (PyMongoError, OSError, ValueError) as error:
            # The next server would refuse for the same reason.
            if not is_explained:
                code, text, remedy = _explain(error, sight, target, timeout)
                report.add(FAILURE, code, text, sight.name, remedy)
            is_explained = True
            continue
        got_in += 1
        if credential is None or is_explained:
            continue
        users = [f"{user['user']}@{user['db']}" for user in seen["authenticatedUsers"]]
        roles = [f"{role['role']}@{role['db']}" for role in seen["authenticatedUserRoles"]]
        text = (
            f"in as {', '.join(users) or 'nobody'}, {_mechanism(target)}, roles: {', '.join(roles) or 'none'}"
        )
        report.add(OK, "auth-in", text, sight.name, users=users, roles=roles)
        if not roles:
            report.add(
                WARNING,
                "auth-no-roles",
                "the user has no roles, so it may do next to nothing",
                sight.name,
                "grant one, such as readWrite on the application's database (db.grantRolesToUser)",
            )
        is_explained = True
    if credential is None and got_in:
        report.add(SKIPPED, "auth-not-asked", "no user is named, and none is needed")
        if any(not ip.startswith("127.") and ip != "::1" for sight in sights for ip in sight.addresses):
            report.add(
                WARNING,
                "auth-off",
                "the servers let in anyone who reaches them",
                remedy="make a user and switch on access control (security.authorization: enabled)",
            )


def _mechanism(target: Target) -> str:
    credential = target.options._credentials
    assert credential is not None
    name = "SCRAM" if credential.mechanism == "DEFAULT" else credential.mechanism
    return f"{name} against {credential.source}"


def _look_inside(sight: Sight, target: Target, timeout: float) -> dict[str, Any]:
    """Return the authInfo of one server and record the server's details; errors are the driver's."""
    from mangonel import MongoClient

    uri, keywords = target.direct(sight.host, sight.port)
    milliseconds = int(timeout * 1000)
    keywords |= {"connectTimeoutMS": milliseconds, "serverSelectionTimeoutMS": milliseconds}
    with warnings.catch_warnings():
        # These were reported with the connection string.
        warnings.simplefilter("ignore")
        client = MongoClient[Any](uri, **keywords)
    with client:
        seen: dict[str, Any] = client.admin.command("connectionStatus", read_preference=ANY_MEMBER)[
            "authInfo"
        ]
        if target.options._credentials is None:
            # connectionStatus succeeds without a login; listDatabases shows whether reading needs one.
            client.admin.command("listDatabases", nameOnly=True, read_preference=ANY_MEMBER)
        for keep, command in (
            (sight.build, {"buildInfo": 1}),
            (sight.status, {"serverStatus": 1, "repl": 0, "metrics": 0, "wiredTiger": 0, "locks": 0}),
            (sight.defaults, {"getDefaultRWConcern": 1}),
        ):
            # Each command may need a role that the user lacks; later steps report what is missing.
            with contextlib.suppress(OperationFailure):
                keep.update(client.admin.command(command, read_preference=ANY_MEMBER))
    return seen


def _explain(error: Exception, sight: Sight, target: Target, timeout: float) -> tuple[str, str, str]:
    credential = target.options._credentials
    number = error.code if isinstance(error, OperationFailure) else None
    if credential is None and number == _UNAUTHORIZED:
        return (
            "auth-needed",
            "the server requires a login, and the URI names no user",
            "put user:password@ before the hosts, both escaped with urllib.parse.quote_plus",
        )
    if number not in (_AUTHENTICATION_FAILED, _MECHANISM_UNAVAILABLE) or credential is None:
        remedy = "the message says what is missing" if isinstance(error, ConfigurationError) else ""
        return "auth-failed", target.shown(error), remedy or "the server's log tells more"
    user, source, mechanism = credential.username, credential.source, credential.mechanism
    if mechanism == "MONGODB-X509":
        return (
            "auth-x509",
            "the server knows no user for the client's certificate",
            "make a user in $external that is named as the certificate's subject in RFC 2253's order: "
            "openssl x509 -in FILE -noout -subject -nameopt RFC2253",
        )
    if mechanism not in _ASKED:
        return (
            "auth-refused",
            target.shown(error),
            f"look at what {mechanism} is given, and at the server's log",
        )
    known = _mechanisms(sight, target, timeout)
    allowed = known.get(source)
    if allowed and mechanism in _SCRAM and mechanism not in allowed:
        return (
            "auth-mechanism",
            f'the user "{user}" of {source} may log in with {" or ".join(allowed)}, not with {mechanism}',
            "remove authMechanism, so that the best one is taken, or set the user's password again for this mechanism "
            "(updateUser with mechanisms)",
        )
    if number == _MECHANISM_UNAVAILABLE:
        return (
            "auth-mechanism",
            target.shown(error),
            "switch the mechanism on in the server (setParameter authenticationMechanisms), or name another one",
        )
    if allowed:
        return (
            "auth-wrong-password",
            f'the user "{user}" of {source} exists, but the password is wrong',
            "look whether it is escaped in the URI (urllib.parse.quote_plus) and whether it was changed",
        )
    elsewhere = [database for database, mechanisms in known.items() if mechanisms]
    if elsewhere:
        return (
            "auth-wrong-source",
            f'there is no user "{user}" in {source}, but there is one in {elsewhere[0]}',
            f"add authSource={elsewhere[0]}",
        )
    return (
        "auth-unknown-user",
        f'the server refuses "{user}", and seems to know no such user in {", ".join(known)}',
        "look at the name, and in which database the user was made (authSource); users of a sharded cluster are made "
        "through mongos",
    )


def _mechanisms(sight: Sight, target: Target, timeout: float) -> dict[str, list[str]]:
    """Return the mechanisms that a user with this name may use, by database."""
    credential = target.options._credentials
    assert credential is not None
    security = target.options.security
    databases = dict.fromkeys([credential.source, "admin", *([target.database] if target.database else [])])
    known: dict[str, list[str]] = {database: [] for database in databases}
    context = security.context if security is not None else None
    with contextlib.suppress(OSError, NotMongoDB):
        connection: Connection
        with open_connection(sight.host, sight.port, timeout, context) as connection:
            for database in known:
                # Old servers answer only in the first hello of a connection; MongoDB 4.4 answers in each.
                reply = connection.ask(
                    {"hello": 1, "saslSupportedMechs": f"{database}.{credential.username}"}
                )
                known[database] = list(reply.get("saslSupportedMechs", ()))
    return known


def note_missing_rights(sights: list[Sight], report: Report) -> None:
    """Report once that the user lacks rights that later steps need."""
    inside = [sight for sight in sights if sight.build]
    if inside and not any(sight.status for sight in inside):
        report.add(
            NOTE,
            "auth-not-monitor",
            "this user may not ask for the servers' state; connections and default concerns stay unknown",
            remedy="to see them, run the doctor as a user with the role clusterMonitor",
        )
