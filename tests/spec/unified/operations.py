"""Runs the operations of a case: most through the driver's method of that name, the others through the tables here.

Spec: unified-test-format, "operation".
"""

from __future__ import annotations

import contextlib
import copy
import io
import time
from collections.abc import Mapping
from typing import Any

from spec.unified import values
from spec.unified.arguments import Arguments
from spec.unified.driver import Face, Worker
from spec.unified.entities import ClientEntity, Entities, SessionEntity
from spec.unified.failures import check_error
from spec.unified.matching import Matcher
from spec.unified.special import SpecialOperations

__all__ = ["Operations"]

ITERATION_TIMEOUT = 60.0  # seconds for a cursor that stays empty


class Operations:
    """The operations of one case."""

    def __init__(self, face: Face, entities: Entities, matcher: Matcher, special: SpecialOperations) -> None:
        self._face = face
        self._driver = face.driver
        self._entities = entities
        # The `timeoutMS` of cursors, by cursor id.
        self._limits: dict[int, int] = {}
        self._matcher = matcher
        self._special = special
        self._arguments = Arguments(face.driver, entities)
        # `find` passes all arguments to the cursor.
        self._find_signature = face.driver.module("cursor").Cursor.__init__

    async def run(self, operation: Mapping[str, Any], *, in_callback: bool = False) -> None:
        """Run one operation and check its result."""
        name = operation["name"]
        expected = operation.get("expectError")
        try:
            result = await self._call(operation)
        except (AssertionError, NotImplementedError):
            raise
        except Exception as error:
            # A call that cannot be made is a fault of the case.
            if operation.get("ignoreResultAndError") and not in_callback and not isinstance(error, TypeError):
                return
            if expected is None:
                if in_callback:
                    raise
                raise AssertionError(f"{name} failed: {error!r}") from error
            check_error(self._driver, self._matcher, expected, error)
            if in_callback:
                # The code that retries the callback must see even an expected error.
                raise
            return
        if operation.get("ignoreResultAndError"):
            return
        assert expected is None, f"expected {name} to fail with {expected}, got {result!r}"
        if "expectResult" in operation:
            described = values.describe_result(result)
            self._matcher.match(operation["expectResult"], described, is_root=True, at=name)
        if "saveResultAsEntity" in operation:
            self._entities.keep(operation["saveResultAsEntity"], result)

    async def run_all(self, operations: list[Mapping[str, Any]]) -> None:
        """Run operations in their order."""
        for operation in operations:
            await self.run(operation)

    async def _call(self, operation: Mapping[str, Any]) -> Any:
        name = operation["name"]
        # The driver adds ids to documents, and the case runs again elsewhere.
        arguments = copy.deepcopy(operation.get("arguments", {}))
        if operation["object"] == "testRunner":
            if name == "runOnThread":
                worker: Worker = self._entities.find(arguments["thread"])
                return worker.submit(self.run(arguments["operation"]))
            return await self._special.call(name, arguments)
        entity = self._entities.find(operation["object"])
        if id(entity) not in self._entities.buckets or name != "drop":
            milliseconds = arguments.pop("timeoutMS", None)
            if milliseconds is not None:
                arguments["timeout_ms"] = milliseconds
            if "timeoutMode" in arguments:
                arguments["timeout_mode"] = values.snake_case(arguments.pop("timeoutMode"))
            # Users of this API poll for a document themselves, so the total limit is theirs.
            until = self._limits.get(id(entity)) if name == "iterateUntilDocumentOrError" else None
            block = self._driver.module("").timeout(until / 1000) if until else contextlib.nullcontext()
            with block:
                result = await self._of_entity(entity, name, arguments)
            if name == "createFindCursor" and milliseconds is not None:
                self._limits[id(result)] = milliseconds
            return result
        # These are two operations in this API, and the limit applies to both.
        milliseconds = arguments.pop("timeoutMS", None)
        seconds = self._entities.buckets[id(entity)][0].client.options.timeout
        if milliseconds is not None:
            seconds = milliseconds / 1000
        with self._driver.module("").timeout(seconds):
            return await self._of_entity(entity, name, arguments)

    async def _of_entity(self, entity: Any, name: str, arguments: dict[str, Any]) -> Any:
        if isinstance(entity, ClientEntity):
            return await self._on("client", entity.client, name, arguments)
        if isinstance(entity, SessionEntity):
            return await self._on("session", entity.session, name, arguments)
        return await self._on(_kind(entity), entity, name, arguments)

    async def _on(self, kind: str, target: Any, name: str, arguments: dict[str, Any]) -> Any:
        special = getattr(self, f"_{kind}_{values.snake_case(name)}", None)
        if special is not None:
            return await special(target, arguments)
        if kind == "cursor" and hasattr(self, f"_{values.snake_case(name)}"):
            return await getattr(self, f"_{values.snake_case(name)}")(target)
        method = getattr(target, values.snake_case(name), None) if _has(target, name) else None
        if method is None:
            raise NotImplementedError(f"operation {name} on a {kind}")
        keywords = self._arguments.for_method(kind, name, arguments, method)
        return await self._collected(method(**keywords))

    async def _collected(self, value: Any) -> Any:
        """Return a result, or all documents of a cursor."""
        value = await self._face.wait(value)
        if hasattr(value, "to_list") and hasattr(value, "alive"):
            return await self._face.wait(value.to_list())
        return value

    # Clients

    async def _client_client_bulk_write(self, client: Any, arguments: dict[str, Any]) -> Any:
        keywords = self._arguments.for_method("client", "clientBulkWrite", arguments, client.bulk_write)
        return await self._face.wait(client.bulk_write(**keywords))

    async def _client_create_change_stream(self, client: Any, arguments: dict[str, Any]) -> Any:
        return await self._watch(client, arguments)

    async def _watch(self, target: Any, arguments: dict[str, Any]) -> Any:
        keywords = self._arguments.for_method("any", "watch", arguments, target.watch)
        return await self._face.wait(target.watch(**keywords))

    # Databases

    async def _database_create_change_stream(self, database: Any, arguments: dict[str, Any]) -> Any:
        return await self._watch(database, arguments)

    async def _database_run_command(self, database: Any, arguments: dict[str, Any]) -> Any:
        arguments.pop("commandName", None)
        keywords = self._arguments.for_method("database", "command", arguments, database.command)
        return await self._face.wait(database.command(**keywords))

    async def _database_create_collection(self, database: Any, arguments: dict[str, Any]) -> Any:
        keywords = self._arguments.for_method(
            "database", "createCollection", arguments, database.create_collection
        )
        # The check whether it exists is specific to this API.
        return await self._face.wait(database.create_collection(check_exists=False, **keywords))

    async def _database_modify_collection(self, database: Any, arguments: dict[str, Any]) -> Any:
        name = arguments.pop("collection")
        return await self._face.wait(database.command("collMod", name, **arguments))

    async def _database_run_cursor_command(self, database: Any, arguments: dict[str, Any]) -> Any:
        cursor = await self._database_create_command_cursor(database, arguments)
        return await self._face.wait(cursor.to_list())

    async def _database_create_command_cursor(self, database: Any, arguments: dict[str, Any]) -> Any:
        arguments.pop("commandName", None)
        arguments.pop("cursorType", None)
        batch_size = arguments.pop("batchSize", 0)
        # The command has its own fields; these are for getMore.
        arguments["maxAwaitTimeMS"] = arguments.pop("maxTimeMS", None)
        keywords = self._arguments.for_method("database", "cursorCommand", arguments, database.cursor_command)
        cursor = await self._face.wait(database.cursor_command(**keywords))
        return cursor.batch_size(batch_size) if batch_size else cursor

    # Collections

    async def _collection_create_change_stream(self, collection: Any, arguments: dict[str, Any]) -> Any:
        return await self._watch(collection, arguments)

    async def _collection_find(self, collection: Any, arguments: dict[str, Any]) -> Any:
        return await self._collected(self._find(collection, arguments))

    async def _collection_find_one(self, collection: Any, arguments: dict[str, Any]) -> Any:
        # `find_one` passes its arguments on to `find`.
        keywords = self._arguments.for_method("collection", "find", arguments, self._find_signature)
        return await self._face.wait(collection.find_one(**keywords))

    def _find(self, collection: Any, arguments: dict[str, Any]) -> Any:
        assert "filter" in arguments, "the format asks for a filter, which this API does not"
        await_ms = arguments.pop("maxAwaitTimeMS", None)
        keywords = self._arguments.for_method("collection", "find", arguments, self._find_signature)
        cursor = collection.find(**keywords)
        return cursor if await_ms is None else cursor.max_await_time_ms(await_ms)

    async def _collection_create_find_cursor(self, collection: Any, arguments: dict[str, Any]) -> Any:
        cursor = _StartedCursor(self._face, self._find(collection, arguments))
        await cursor.start()
        return cursor

    async def _collection_list_index_names(self, collection: Any, arguments: dict[str, Any]) -> Any:
        return list(await self._face.wait(collection.index_information(**arguments)))

    async def _collection_create_search_index(self, collection: Any, arguments: dict[str, Any]) -> Any:
        model = self._search_model(arguments["model"])
        return await self._face.wait(collection.create_search_index(model))

    async def _collection_create_search_indexes(self, collection: Any, arguments: dict[str, Any]) -> Any:
        models = [self._search_model(one) for one in arguments["models"]]
        return await self._face.wait(collection.create_search_indexes(models))

    async def _collection_list_search_indexes(self, collection: Any, arguments: dict[str, Any]) -> Any:
        arguments.update(arguments.pop("aggregationOptions", {}))
        return await self._collected(collection.list_search_indexes(**arguments))

    def _search_model(self, wanted: Mapping[str, Any]) -> Any:
        return self._driver.module("operations").SearchIndexModel(**wanted)

    # Sessions

    async def _session_start_transaction(self, session: Any, arguments: dict[str, Any]) -> Any:
        options = values.transaction_options(self._driver, arguments)
        await self._face.wait(session.start_transaction(**options))

    async def _session_with_transaction(self, session: Any, arguments: dict[str, Any]) -> Any:
        operations = arguments.pop("callback")

        async def callback(session: Any) -> None:
            for operation in operations:
                await self.run(operation, in_callback=True)

        options = values.transaction_options(self._driver, arguments)
        await self._face.wait(session.with_transaction(self._face.callback(callback), **options))

    async def _session_get_snapshot_time(self, session: Any, arguments: dict[str, Any]) -> Any:
        return session.snapshot_time

    # Keys

    async def _encryption_create_data_key(self, keys: Any, arguments: dict[str, Any]) -> Any:
        options = {values.snake_case(name): value for name, value in arguments.get("opts", {}).items()}
        return await self._face.wait(keys.create_data_key(arguments["kmsProvider"], **options))

    async def _encryption_encrypt(self, keys: Any, arguments: dict[str, Any]) -> Any:
        options = {values.snake_case(name): value for name, value in arguments["opts"].items()}
        return await self._face.wait(keys.encrypt(arguments["value"], **options))

    async def _encryption_rewrap_many_data_key(self, keys: Any, arguments: dict[str, Any]) -> Any:
        options = {values.snake_case(name): value for name, value in arguments.get("opts", {}).items()}
        result = await self._face.wait(keys.rewrap_many_data_key(arguments["filter"], **options))
        written = result.bulk_write_result
        return {} if written is None else {"bulkWriteResult": values.describe_result(written)}

    # Buckets

    async def _bucket_upload(self, bucket: Any, arguments: dict[str, Any]) -> Any:
        # Current drivers write no digest.
        arguments.pop("disableMD5", None)
        source = io.BytesIO(bytes.fromhex(arguments.pop("source")["$$hexBytes"]))
        keywords = self._arguments.for_method("bucket", "upload", arguments, bucket.upload_from_stream)
        return await self._face.wait(bucket.upload_from_stream(source=source, **keywords))

    async def _bucket_download(self, bucket: Any, arguments: dict[str, Any]) -> Any:
        content = io.BytesIO()
        await self._face.wait(bucket.download_to_stream(arguments.pop("id"), content, **arguments))
        return content.getvalue()

    async def _bucket_download_by_name(self, bucket: Any, arguments: dict[str, Any]) -> Any:
        content = io.BytesIO()
        await self._face.wait(bucket.download_to_stream_by_name(destination=content, **arguments))
        return content.getvalue()

    async def _bucket_drop(self, bucket: Any, arguments: dict[str, Any]) -> None:
        # In this API dropping a bucket means dropping its collections.
        database, name = self._entities.buckets[id(bucket)]
        await self._face.wait(database[name].files.drop())
        await self._face.wait(database[name].chunks.drop())

    # Cursors and change streams

    async def _iterate_until_document_or_error(self, cursor: Any) -> Any:
        deadline = time.monotonic() + ITERATION_TIMEOUT
        while time.monotonic() < deadline:
            document = await self._iterate_once(cursor)
            if document is not None:
                return document
        raise AssertionError(f"no document within {ITERATION_TIMEOUT} s")

    async def _iterate_once(self, cursor: Any) -> Any:
        if hasattr(cursor, "try_next"):
            return await self._face.wait(cursor.try_next())
        try:
            return await self._face.wait(cursor.next())
        except (StopIteration, StopAsyncIteration):
            return None


class _StartedCursor:
    """Run a find that requests its first batch at once, as the format expects; the API waits for the first read."""

    def __init__(self, face: Face, cursor: Any) -> None:
        self._face = face
        self._cursor = cursor
        self._first: Any = None

    async def start(self) -> None:
        """Request the first batch."""
        self._first = await self.try_next()

    async def try_next(self) -> Any:
        """Return a document, or None when there is none now."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            return await self._face.wait(self._cursor.next())
        except (StopIteration, StopAsyncIteration):
            return None

    async def close(self, **arguments: Any) -> None:
        """Close the cursor."""
        await self._face.wait(self._cursor.close(**arguments))


def _kind(entity: Any) -> str:
    name = type(entity).__name__.removeprefix("Async")
    kinds = {"Database": "database", "Collection": "collection", "GridFSBucket": "bucket"}
    return {**kinds, "ClientEncryption": "encryption"}.get(name, "cursor")


def _has(target: Any, name: str) -> bool:
    # On clients, databases and collections any unknown name is a child object.
    return hasattr(type(target), values.snake_case(name))
