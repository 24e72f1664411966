"""The specification's cases for GridFS on both faces: uploads, downloads, renaming, removing, damage.

Reads the files of `gridfs/tests` below the folder that MONGODB_SPECIFICATIONS names.
"""

from __future__ import annotations

import asyncio
import inspect
from datetime import datetime
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient
from mangonel.bson import ObjectId, json_util
from mangonel.gridfs import AsyncGridFSBucket, GridFSBucket, GridFSError
from mangonel.operations import UpdateOne
from mangonel.server import Server
from tools.official import FOLDER, NO_FOLDER

FILES = sorted((FOLDER / "gridfs" / "tests").glob("*.json")) if FOLDER else []
TYPES: dict[str, type[Any]] = {"objectId": ObjectId, "date": datetime}

pytestmark = pytest.mark.skipif(not FILES, reason=NO_FOLDER)


def cases() -> list[Any]:
    found = []
    for path in FILES:
        # Legacy number types become plain ones, as stored.
        content = json_util.loads(path.read_text())
        for test in content["tests"]:
            found.append(pytest.param(content, test, id=f"{path.stem}: {test['description']}"))
    return found


class Runner:
    """Runs the operations of one case on one face."""

    def __init__(self, client: Any, bucket_class: type[Any], content: dict[str, Any]) -> None:
        self._entities: dict[str, Any] = {}
        for entity in content["createEntities"]:
            ((kind, told),) = entity.items()
            name = told["id"]
            if kind == "client":
                self._entities[name] = client
            elif kind == "database":
                self._entities[name] = self._entities[told["client"]][told["databaseName"]]
            elif kind == "collection":
                self._entities[name] = self._entities[told["database"]][told["collectionName"]]
            else:
                self._entities[name] = bucket_class(self._entities[told["database"]])

    async def run(self, operation: dict[str, Any]) -> None:
        target = self._entities[operation["object"]]
        call = getattr(self, f"_{operation['name']}")
        arguments = filled(operation.get("arguments", {}))
        if "expectError" in operation:
            kind = {"isClientError": GridFSError, "isError": Exception}[next(iter(operation["expectError"]))]
            with pytest.raises(kind):
                await call(target, **arguments)
            return
        result = await call(target, **arguments)
        if "saveResultAsEntity" in operation:
            self._entities[operation["saveResultAsEntity"]] = result
        if "expectResult" in operation:
            self.compare(result, operation["expectResult"])

    async def _delete(self, bucket: Any, id: Any) -> Any:
        return await waited(bucket.delete(id))

    async def _deleteByName(self, bucket: Any, filename: str) -> Any:  # noqa: N802
        return await waited(bucket.delete_by_name(filename))

    async def _rename(self, bucket: Any, id: Any, newFilename: str) -> Any:  # noqa: N803
        return await waited(bucket.rename(id, newFilename))

    async def _renameByName(self, bucket: Any, filename: str, newFilename: str) -> Any:  # noqa: N802, N803
        return await waited(bucket.rename_by_name(filename, newFilename))

    async def _download(self, bucket: Any, id: Any) -> bytes:
        source = await waited(bucket.open_download_stream(id))
        return bytes(await waited(source.read()))

    async def _downloadByName(self, bucket: Any, filename: str, revision: int = -1) -> bytes:  # noqa: N802
        source = await waited(bucket.open_download_stream_by_name(filename, revision))
        return bytes(await waited(source.read()))

    async def _upload(
        self,
        bucket: Any,
        filename: str,
        source: bytes,
        chunkSizeBytes: int,  # noqa: N803
        metadata: Any = None,
        disableMD5: bool = True,  # noqa: N803
    ) -> Any:
        return await waited(bucket.upload_from_stream(filename, source, chunkSizeBytes, metadata))

    async def _deleteOne(self, collection: Any, filter: Any) -> Any:  # noqa: N802
        return {"deletedCount": (await waited(collection.delete_one(filter))).deleted_count}

    async def _updateOne(self, collection: Any, filter: Any, update: Any) -> Any:  # noqa: N802
        return counts(await waited(collection.update_one(filter, update)))

    async def _bulkWrite(self, collection: Any, requests: list[Any]) -> Any:  # noqa: N802
        writes = [UpdateOne(**request["updateOne"]) for request in requests]
        return counts(await waited(collection.bulk_write(writes)))

    async def _find(self, collection: Any, filter: Any, sort: Any = None) -> Any:
        return await waited(collection.find(filter, sort=sort).to_list())

    def compare(self, found: Any, expected: Any) -> None:
        if isinstance(expected, dict) and len(expected) == 1 and next(iter(expected)).startswith("$$"):
            ((rule, value),) = expected.items()
            if rule == "$$type":
                assert isinstance(found, TYPES[value])
            elif rule == "$$matchesEntity":
                assert found == self._entities[value]
            elif rule == "$$matchesHexBytes":
                assert found == bytes.fromhex(value)
            else:
                raise AssertionError(f"expected a rule that is known, got {rule}")
        elif isinstance(expected, dict):
            for key, value in expected.items():
                if isinstance(value, dict) and (
                    value.get("$$exists") is False or "$$unsetOrMatches" in value
                ):
                    assert key not in found or found[key] == value.get("$$unsetOrMatches", ...)
                else:
                    assert key in found
                    self.compare(found[key], value)
        elif isinstance(expected, list):
            assert len(found) == len(expected)
            for part, wanted in zip(found, expected, strict=True):
                self.compare(part, wanted)
        else:
            assert found == expected


def counts(result: Any) -> dict[str, int]:
    return {"matchedCount": result.matched_count, "modifiedCount": result.modified_count}


def filled(value: Any) -> Any:
    """Return arguments with bytes in place of their hex digits."""
    if isinstance(value, dict):
        if "$$hexBytes" in value:
            return bytes.fromhex(value["$$hexBytes"])
        return {key: filled(item) for key, item in value.items()}
    return [filled(item) for item in value] if isinstance(value, list) else value


async def waited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


@pytest.mark.each_once("case")
@pytest.mark.parametrize("face", ["blocking", "asyncio"])
@pytest.mark.parametrize(("content", "case"), cases())
def test_gridfs(content: dict[str, Any], case: dict[str, Any], face: str, standalone: Server) -> None:
    with MongoClient(standalone.uri) as own:

        async def play(client: Any, bucket_class: type[Any]) -> None:
            for told in content.get("initialData", []):
                collection = own[told["databaseName"]][told["collectionName"]]
                collection.drop()
                if told["documents"]:
                    collection.insert_many(filled(told["documents"]))
            runner = Runner(client, bucket_class, content)
            for operation in case["operations"]:
                await runner.run(operation)
            for told in case.get("outcome", []):
                stored = own[told["databaseName"]][told["collectionName"]].find(sort=[("_id", 1)]).to_list()
                runner.compare(stored, filled(told["documents"]))

        async def play_on_asyncio() -> None:
            async with AsyncMongoClient(standalone.uri) as client:
                await play(client, AsyncGridFSBucket)

        asyncio.run(play(own, GridFSBucket) if face == "blocking" else play_on_asyncio())
        for told in content.get("initialData", []):
            own.drop_database(told["databaseName"])
