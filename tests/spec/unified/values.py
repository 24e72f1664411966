"""Convert the format's documents to the driver's values (concerns, preferences, models, options), and results back.

Knows neither entities nor operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spec.unified.driver import Driver

__all__ = [
    "LOCAL_KEY",
    "auto_encryption_options",
    "concerns",
    "describe_error_result",
    "describe_result",
    "driver_info",
    "kms_providers",
    "read_preference",
    "server_api",
    "session_options",
    "snake_case",
    "write_models",
]


def snake_case(name: str) -> str:
    """Return `max_time_ms` for `maxTimeMS`."""
    words = ""
    for index, letter in enumerate(name):
        starts_word = letter.isupper() and index > 0 and not name[index - 1].isupper()
        words += f"_{letter.lower()}" if starts_word else letter.lower()
    return words


def server_api(driver: Driver, wanted: Mapping[str, Any]) -> Any:
    """Return a ServerApi."""
    return driver.module("server_api").ServerApi(
        wanted["version"], strict=wanted.get("strict"), deprecation_errors=wanted.get("deprecationErrors")
    )


def driver_info(driver: Driver, wanted: Mapping[str, Any]) -> Any:
    """Return a DriverInfo."""
    return driver.module("driver_info").DriverInfo(**wanted)


def read_preference(driver: Driver, wanted: Mapping[str, Any]) -> Any:
    """Return a read preference."""
    module = driver.module("read_preferences")
    name = wanted["mode"]
    mode = module.read_pref_mode_from_name(name[0].lower() + name[1:])
    return module.make_read_preference(
        mode, wanted.get("tagSets"), max_staleness=wanted.get("maxStalenessSeconds", -1)
    )


def concerns(driver: Driver, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for the concerns and the preference among the options; the others unchanged."""
    arguments: dict[str, Any] = {}
    for name, value in options.items():
        if name == "readConcern":
            arguments["read_concern"] = driver.module("read_concern").ReadConcern(value.get("level"))
        elif name == "writeConcern":
            arguments["write_concern"] = _write_concern(driver, value)
        elif name == "readPreference":
            arguments["read_preference"] = read_preference(driver, value)
        else:
            arguments["timeout_ms" if name == "timeoutMS" else name] = value
    return arguments


def _write_concern(driver: Driver, wanted: Mapping[str, Any]) -> Any:
    names = {"wtimeoutMS": "wtimeout", "journal": "j"}
    arguments = {names.get(name, name): value for name, value in wanted.items()}
    return driver.module("write_concern").WriteConcern(**arguments)


def session_options(
    driver: Driver, options: Mapping[str, Any], find_entity: Callable[[str], Any]
) -> dict[str, Any]:
    """Return keyword arguments of `start_session`."""
    arguments: dict[str, Any] = {}
    for name, value in options.items():
        if name == "defaultTransactionOptions":
            arguments["default_transaction_options"] = driver.module("client_session").TransactionOptions(
                **transaction_options(driver, value)
            )
        elif name == "snapshotTime":
            arguments["snapshot_time"] = find_entity(value) if isinstance(value, str) else value
        else:
            arguments[snake_case(name)] = value
    return arguments


def transaction_options(driver: Driver, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments of a transaction."""
    return {
        "max_commit_time_ms" if name == "maxCommitTimeMS" else name: value
        for name, value in concerns(driver, options).items()
    }


def write_models(driver: Driver, requests: list[Mapping[str, Any]]) -> list[Any]:
    """Return the models of a bulk write, of a collection or of a client."""
    operations = driver.module("operations")
    models = []
    for request in requests:
        name, fields = next(iter(request.items()))
        arguments = {snake_case(key): value for key, value in fields.items()}
        if "collation" in arguments:
            arguments["collation"] = driver.module("collation").Collation(**arguments["collation"])
        models.append(getattr(operations, name[0].upper() + name[1:])(**arguments))
    return models


def describe_result(value: Any) -> Any:
    """Return a method's result in the words of the format."""
    describe = _RESULTS.get(type(value).__name__)
    return describe(value) if describe is not None else value


def describe_error_result(error: Any) -> Any:
    """Return the partial result of a failed operation."""
    partial = getattr(error, "partial_result", None)
    if partial is not None:
        return describe_result(partial)
    return _bulk_counts(error.details)


def _insert_one(result: Any) -> dict[str, Any]:
    if not result.acknowledged:
        return {"acknowledged": False}
    return {"insertedId": result.inserted_id}


def _insert_many(result: Any) -> dict[str, Any]:
    if not result.acknowledged:
        return {"acknowledged": False}
    ids = result.inserted_ids
    return {
        "insertedIds": {str(number): value for number, value in enumerate(ids)},
        "insertedCount": len(ids),
    }


def _update(result: Any) -> dict[str, Any]:
    if not result.acknowledged:
        return {"acknowledged": False}
    described = {
        "matchedCount": result.matched_count,
        "modifiedCount": result.modified_count,
        "upsertedCount": 0 if result.upserted_id is None else 1,
    }
    if result.upserted_id is not None:
        described["upsertedId"] = result.upserted_id
    return described


def _delete(result: Any) -> dict[str, Any]:
    if not result.acknowledged:
        return {"acknowledged": False}
    return {"deletedCount": result.deleted_count}


def _bulk(result: Any) -> dict[str, Any]:
    if not result.acknowledged:
        return {"acknowledged": False}
    return _bulk_counts(result.bulk_api_result)


def _bulk_counts(raw: Mapping[str, Any]) -> dict[str, Any]:
    described = {
        "deletedCount": raw["nRemoved"],
        "insertedCount": raw["nInserted"],
        "matchedCount": raw["nMatched"],
        "modifiedCount": raw["nModified"],
        "upsertedCount": raw["nUpserted"],
        "upsertedIds": {str(one["index"]): one["_id"] for one in raw["upserted"]},
    }
    if "insertedIds" in raw:
        described["insertedIds"] = raw["insertedIds"]
    return described


def _client_bulk(result: Any) -> dict[str, Any]:
    if not result.acknowledged:
        return {"acknowledged": False}
    described = {
        name: getattr(result, snake_case(name))
        for name in ("deletedCount", "insertedCount", "matchedCount", "modifiedCount", "upsertedCount")
    }
    if result.has_verbose_results:
        for name in ("insertResults", "updateResults", "deleteResults"):
            found = getattr(result, snake_case(name))
            described[name] = {str(number): describe_result(one) for number, one in found.items()}
    return described


_RESULTS: dict[str, Callable[[Any], Any]] = {
    "InsertOneResult": _insert_one,
    "InsertManyResult": _insert_many,
    "UpdateResult": _update,
    "DeleteResult": _delete,
    "BulkWriteResult": _bulk,
    "ClientBulkWriteResult": _client_bulk,
}


# The values for `$$placeholder`. Of local: the key that encrypted the specification's data. The others are fake
# credentials, for cases that contact no service.
LOCAL_KEY = (
    "Mng0NCt4ZHVUYUJCa1kxNkVyNUR1QURhZ2h2UzR2d2RrZzh0cFBwM3R6NmdWMDFBMUN3YkQ5aXRRMkhGRGdQV09wOGVNYUMxT2k3NjZKelhaQmRC"
    "ZGJkTXVyZG9uSjFk"
)
_CREDENTIALS = {"key": LOCAL_KEY, "endpoint": "localhost:1"}
_APART = {"kmsProviders", "keyExpirationMS", "extraOptions"}


def kms_providers(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the providers of a case."""
    return {
        name: {
            option: _CREDENTIALS.get(option, "bm9ib2R5") if isinstance(value, Mapping) else value
            for option, value in given.items()
        }
        for name, given in wanted.items()
    }


def auto_encryption_options(driver: Any, wanted: Mapping[str, Any]) -> Any:
    """Return a client's encryption options from a case. No query analyser is available."""
    given = {snake_case(name): value for name, value in wanted.items() if name not in _APART}
    module = driver.module("encryption_options" if driver.name == "pymongo" else "encryption")
    return module.AutoEncryptionOpts(
        kms_providers(wanted["kmsProviders"]),
        mongocryptd_uri="mongodb://localhost:1/?serverSelectionTimeoutMS=50",
        mongocryptd_bypass_spawn=True,
        key_expiration_ms=wanted.get("keyExpirationMS"),
        **given,
    )
