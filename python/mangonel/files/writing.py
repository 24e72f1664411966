"""Exports collections to files of tables: threads write parts, each to its own file until all are complete."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mangonel._parts_of_tables import sizes_of
from mangonel.arrow.schema import Schema, fields_of
from mangonel.bson import Binary, json_util
from mangonel.bson.binary import UUID_SUBTYPE
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.files.columns import flattened, from_json
from mangonel.files.errors import TransferError
from mangonel.files.formats import Format, format_of
from mangonel.jsonl.in_thread import check_face

__all__ = ["ExportedTable", "export_table"]

# Bytes of a part as the server counts them, and of a table in memory.
_PART, _TABLE = 64 << 20, 8 << 20
_MOST_PARTS, _MOST_ROWS = 1_000, 65_536
# A collection that is smaller is one part.
_SMALL = 8 << 20
_PLAN_FORMAT = 1


@dataclass
class ExportedTable:
    """The result of an export."""

    documents: int = 0
    """Documents in the file, those of an earlier call that was resumed included."""
    parts: int = 0
    """Parts that the collection was read in."""
    resumed: int = 0
    """Parts that an earlier call had completed."""
    columns: tuple[str, ...] = ()
    """Names of the columns."""
    mixed: tuple[str, ...] = ()
    """Paths whose values have several types, and were written as text. JSON lines keep the types."""


def export_table(
    collection: Any,
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    schema: Any = None,
    filter: Mapping[str, Any] | None = None,
    projection: Any = None,
    sample: int | None = None,
    on_invalid: str | None = None,
    missing: str = "null",
    parallel: int = 2,
    parts: int | None = None,
    split: bool = False,
    snapshot: bool = False,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ExportedTable:
    """Write the documents of a collection to a file of Parquet, Arrow IPC or CSV.

    Without a schema, the columns are those of `collection.infer_schema()`, which reads every document once before the
    export; so no field is left out, and values of several types at one path become text. Complete parts are kept beside
    the target, in a folder with its name and `.parts`, until the whole file is in place.

    Args:
        collection: a collection of the blocking face.
        target: the file, which is replaced when the export is complete; with `split` a folder. An existing folder is
            replaced if it holds only the parts of an earlier export.
        format: "parquet", "arrow" or "csv". None: from the ending of the name.
        schema: as for `Cursor.to_arrow`. Fields that it does not name are not written.
        filter: query document. None: all documents.
        projection: fields to write. None: all. Not together with `schema`.
        sample: infer the columns from this many documents. Faster, but a field that none of them has is not written.
        on_invalid: as for `Cursor.to_arrow`. None: "string" without a schema, otherwise "raise".
        missing: "distinguish" adds a column to distinguish null from missing, as for `Cursor.to_arrow`.
        parallel: how many parts are read and written at a time.
        parts: how many parts the collection is read in. None: one for each 64 MB.
        split: leave one file for each part, in the folder `target`.
        snapshot: all parts read one moment, as for `Collection.partitions`. It cannot be resumed.
        resume: continue an export of the same arguments that was interrupted, without the parts that are complete.
        progress: called with the bytes and documents written so far, by one thread at a time.

    Raises:
        TypeError: `collection` is no collection of the blocking face.
        TransferError: the name has no known ending, or names a folder without `split`, or a folder with other files; or
            the existing parts belong to another export; or `projection` names a field that no document has; or another
            export to `target` started meanwhile, whose files are left alone.
        ColumnError: a value does not fit its column.
        ImportError: pyarrow is not installed.
        OSError: a file cannot be written. FileNotFoundError: the folder of `target` does not exist; nothing was read.
        OperationFailure, AutoReconnect: as for `find`. Complete parts are kept for `resume`.

    Example:
        >>> export_table(client.shop.orders, "orders.csv", projection=["total"]).columns
        ('_id', 'total')
    """
    made = format_of(target, format)
    if snapshot and resume:
        raise TransferError("expected snapshot or resume, got both: the server keeps a snapshot for minutes")
    if schema is not None and (projection is not None or sample is not None):
        raise TransferError(
            "expected a schema alone: it names the fields already; leave out projection and sample"
        )
    for name, value in (("parallel", parallel), ("parts", 1 if parts is None else parts)):
        if type(value) is not int or value < 1:
            raise ValueError(f"expected at least 1 as {name}, got {value!r}")
    check_face(collection, is_async=False, twin="aexport_table")
    path = Path(target)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, f"expected an existing folder for {path.name}", str(path.parent)
        )
    _check_target(path, made, is_split=split)
    export = _Export(collection, path, made, split, progress)
    asked = {
        "collection": collection.full_name,
        "filter": json_util.dumps(filter or {}, json_options=json_util.CANONICAL_JSON_OPTIONS),
        "projection": list(projection) if projection is not None else None,
        # As it is read back from JSON, since it is compared with that.
        "schema": None if schema is None else json.loads(json.dumps(fields_of(schema))),
        "sample": sample,
        "split": split,
        "missing": missing,
        "on_invalid": on_invalid or ("string" if schema is None else "raise"),
        "format": made.endings[0],
    }
    plan = export.kept_plan(asked) if resume else None
    if plan is None:
        plan = export.new_plan(asked, schema, filter, projection, sample, parts, parallel, snapshot)
    return export.run(plan, parallel)


class _Export:
    """One export: its plan, its parts, and the file that they become."""

    def __init__(self, collection: Any, target: Path, made: Format, split: bool, progress: Any) -> None:
        self._collection = collection
        self._target = target
        self._format = made
        self._split = split
        self._progress = progress
        self._folder = target.with_name(f"{target.name}.parts")
        # Another process may export to the same target: neither writes into the other's files.
        self._token = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._done = ExportedTable()
        self._bytes = 0
        self._is_over = False
        self._parts: list[Any] | None = None

    # The plan.

    def kept_plan(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Return the plan of an earlier call; None: there was none.

        Raises:
            TransferError: the plan belongs to another export.
        """
        path = self._folder / "plan.json"
        if not path.exists():
            return None
        try:
            plan: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            kept = plan["asked"]
        except (ValueError, KeyError, TypeError) as error:
            raise TransferError(f"expected the plan of an export in {path}, got something else") from error
        if kept != asked:
            differing = ", ".join(name for name in asked if kept.get(name) != asked[name])
            raise TransferError(
                f"{self._folder} belongs to another export, with another {differing}; give the same, or remove it"
            )
        return plan

    def new_plan(
        self,
        asked: dict[str, Any],
        schema: Any,
        filter: Any,
        projection: Any,
        sample: int | None,
        parts: int | None,
        parallel: int,
        snapshot: bool,
    ) -> dict[str, Any]:
        """Decide columns and parts, and keep them in a file."""
        collection = self._collection
        sizes = sizes_of(collection)
        if parts is None:
            is_one = sizes.whole < _SMALL or not sizes.has_parts
            parts = 1 if is_one else min(max(-(-sizes.whole // _PART), parallel), _MOST_PARTS)
        self._parts = collection.partitions(parts, filter, projection, by="sample", snapshot=snapshot)
        mixed: list[str] = []
        if schema is None:
            found = collection.infer_schema(filter, sample=sample)
            fields = _chosen(found, projection)
            names = {name for name, _ in fields}
            mixed = [inner.path for key in names for inner in found.fields[key] if inner.is_mixed]
        else:
            fields = fields_of(schema)
        if not self._format.is_nested:
            fields = flattened(fields)
            if asked["missing"] != "null":
                raise TransferError(
                    f'expected missing="null" for {self._format.endings[0]}, which has no lists, got "distinguish"'
                )
        plan = {
            "format": _PLAN_FORMAT,
            "asked": asked,
            "columns": fields,
            "mixed": sorted(mixed),
            "rows": max(min(_TABLE // max(sizes.average, 1), _MOST_ROWS), 64),
            "parts": [_bounds(part) for part in self._parts],
            "identity": _identity(self._parts),
            "token": self._token,
        }
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._replace(self._folder / "plan.json", json.dumps(plan).encode())
        return plan

    # The parts.

    def run(self, plan: dict[str, Any], parallel: int) -> ExportedTable:
        """Write the missing parts, join all parts, and remove them."""
        done = self._done
        done.columns = tuple(name for name, _ in plan["columns"])
        done.mixed = tuple(plan["mixed"])
        done.parts = len(plan["parts"])
        fields = from_json(plan["columns"])
        waiting = []
        for place in range(done.parts):
            count = self._count_path(place)
            if self._part_path(place).exists() and count.exists():
                done.resumed += 1
                done.documents += int(count.read_text())
                self._bytes += self._part_path(place).stat().st_size
            else:
                waiting.append(place)
        with ThreadPoolExecutor(parallel) as pool:
            work = {pool.submit(self._write_part, place, plan, fields) for place in waiting}
            try:
                while work:
                    ended, work = wait(work, return_when=FIRST_COMPLETED)
                    for each in ended:
                        each.result()
            finally:
                # After a failure, or Ctrl-C, parts that are being written need not be completed.
                self._is_over = True
                pool.shutdown(wait=True, cancel_futures=True)
        self._complete(fields, plan)
        return done

    def _part_path(self, place: int) -> Path:
        return self._folder / f"part-{place:05}{self._format.endings[0]}"

    def _count_path(self, place: int) -> Path:
        return self._folder / f"part-{place:05}.count"

    def _write_part(self, place: int, plan: dict[str, Any], fields: list[tuple[str, Any]]) -> None:
        import pyarrow

        if self._is_over:
            return
        self._check_plan(plan)
        path = self._part_path(place)
        beside = self._beside(path)
        asked = plan["asked"]
        cursor = self._cursor(place, plan)
        schema = Schema.of_kinds(fields)
        options = {"on_invalid": asked["on_invalid"], "missing": asked["missing"]}
        writer = self._format.writer(beside, self._schema(fields, asked), is_part=not self._split)
        rows = 0
        try:
            for found in cursor.iter_arrow(schema, rows=plan["rows"], **options):
                table = pyarrow.table(found)
                writer.write(table)
                rows += len(table)
                self._note(len(table), table.nbytes)
                if self._is_over:
                    return
        finally:
            cursor.close()
            writer.close()
        self._check_plan(plan)
        # Write the number of rows first: a part that exists counts as complete.
        self._replace(self._count_path(place), str(rows).encode())
        beside.replace(path)

    def _schema(self, fields: list[tuple[str, Any]], asked: dict[str, Any]) -> Any:
        import pyarrow

        from mangonel import _core

        builder = _core.ColumnBuilder(fields, "raise", 1, asked["missing"])
        return pyarrow.table(builder.take()).schema

    def _cursor(self, place: int, plan: dict[str, Any]) -> Any:
        if self._parts is not None:
            return self._parts[place].find()
        from mangonel._shared.partitions.plan import Range

        low, high, is_last_key = plan["parts"][place]
        query = json_util.loads(plan["asked"]["filter"], json_options=json_util.CANONICAL_JSON_OPTIONS)
        cursor = self._collection.find(query, plan["asked"]["projection"])
        Range(_bound(low), _bound(high), is_last_key=is_last_key).narrow(cursor._query)
        if identity := plan.get("identity"):
            cursor._query["collectionUUID"] = Binary(bytes.fromhex(identity), UUID_SUBTYPE)
        return cursor

    def _note(self, rows: int, size: int) -> None:
        with self._lock:
            self._done.documents += rows
            self._bytes += size
            if self._progress is not None:
                self._progress(self._bytes, self._done.documents)

    # The whole.

    def _complete(self, fields: list[tuple[str, Any]], plan: dict[str, Any]) -> None:
        paths = [self._part_path(place) for place in range(self._done.parts)]
        self._check_plan(plan)
        if self._split:
            # Also the files that killed processes left behind.
            for path in {*self._folder.iterdir()}.difference(paths):
                path.unlink()
            if self._target.is_dir():
                shutil.rmtree(self._target)
            self._folder.replace(self._target)
            return
        whole = self._beside(self._folder / "whole")
        self._format.join(paths, whole, self._schema(fields, plan["asked"]))
        self._check_plan(plan)
        whole.replace(self._target)
        shutil.rmtree(self._folder)

    # Another export to the same target.

    def _check_plan(self, plan: dict[str, Any]) -> None:
        """Refuse to continue in a folder that another export has taken over.

        Raises:
            TransferError: another export has taken it over.
        """
        try:
            token = json.loads((self._folder / "plan.json").read_bytes()).get("token")
        except FileNotFoundError:
            token = ""
        if token != plan.get("token"):
            raise TransferError(
                f"another export to {self._target} began or ended meanwhile and took {self._folder}; write to "
                "another name, or let one end before the next begins"
            )

    def _beside(self, path: Path) -> Path:
        return path.with_name(f"{path.name}.{self._token}.new")

    def _replace(self, path: Path, data: bytes) -> None:
        beside = self._beside(path)
        beside.write_bytes(data)
        beside.replace(path)


def _check_target(path: Path, made: Format, *, is_split: bool) -> None:
    """Refuse a target that could not be replaced at the end, and a folder with other files.

    Raises:
        TransferError: the message says which.
    """
    if not path.is_dir():
        if is_split and path.exists():
            raise TransferError(f"expected the name of a folder with split, got the file {path}; remove it")
        return
    if not is_split:
        raise TransferError(
            f"expected the name of a file, got the folder {path}; split=True writes a folder of parts"
        )
    ending = re.escape(made.endings[0])
    others = [each.name for each in path.iterdir() if not re.fullmatch(rf"part-\d+{ending}", each.name)]
    if others:
        raise TransferError(
            f"expected a folder of an earlier export, which is replaced, got {path} with {min(others)!r}; give another "
            "name"
        )


def _chosen(found: Any, projection: Any) -> list[tuple[str, Any]]:
    """Return the columns of an inferred schema that a projection leaves."""
    fields: list[tuple[str, Any]] = found.schema.fields
    if projection is None:
        return fields
    names = set(projection)
    if isinstance(projection, Mapping) or any("." in name for name in names):
        raise TransferError(
            f"expected names of fields without dots as projection, got {projection!r}; give a schema"
        )
    if found.documents and (unknown := names.difference(found.fields, ["_id"])):
        raise TransferError(
            f"expected fields of the documents as projection, got {sorted(unknown)}, which none of them has"
        )
    names.add("_id")
    return [(name, kind) for name, kind in fields if name in names]


def _bounds(part: Any) -> tuple[str | None, str | None, bool]:
    """Return the bounds of a part as text, and whether the part has the greatest key."""
    low, high = part.low, part.high
    is_last_key = low is None and high is None and part.count > 1
    return _text(low), _text(high), is_last_key


def _identity(parts: list[Any]) -> str | None:
    """Return the UUID of the collection of parts as text; None if the server cannot compare it."""
    found = parts[0].find()._query.get("collectionUUID") if parts else None
    return None if found is None else bytes(found).hex()


def _text(bound: RawBSONDocument | None) -> str | None:
    return None if bound is None else bytes(bound.raw).hex()


def _bound(text: str | None) -> RawBSONDocument | None:
    # Raw BSON, so that an id of any type is restored unchanged.
    return None if text is None else RawBSONDocument(bytes.fromhex(text))
