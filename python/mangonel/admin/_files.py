"""The files of documents: uploads with a form, downloads in pieces, and the deletion of replaced ones. Spec: gridfs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from mangonel import _core
from mangonel.admin import _forms
from mangonel.admin._forms import Form
from mangonel.admin._request import Request, Response
from mangonel.errors import PyMongoError
from mangonel.gridfs import NoFile
from mangonel.odm import Audited, Embedded, File, ValidationError
from mangonel.odm._registry import is_embedded
from mangonel.odm.model.annotations import classes_in
from mangonel.odm.model.belongs_to import held
from mangonel.odm.store.files import bucket_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mangonel.admin._port import Port
    from mangonel.admin._site import Admin

log = logging.getLogger("mangonel.admin")

# The key, in the metadata of a file that the admin uploaded, of the model's name.
MARK = "mangonel.admin"
# Bytes of a download that are in memory at once.
PIECE = 1 << 20


class Uploads:
    """The files of one form in GridFS: stored before the document that names them, deleted if it is not saved.

    If it is unknown whether the document was saved, they stay, since it may name them.

    Args:
        port: how to wait.
        request: the request with the files.
        title: the name of the document's model.
        form: the form, which gets their ids.
        faults: gets the problems, by field.
        had: the files that the document had before.
    """

    def __init__(
        self,
        port: Port,
        request: Request,
        title: str,
        form: Form,
        faults: dict[str, str],
        had: frozenset[File] = frozenset(),
    ) -> None:
        self._port = port
        self._sent = request.files
        self._title = title
        self._had = had
        self._form = form
        self._faults = faults
        # Each file with its path in the form, and the text that it replaced there.
        self._stored: list[tuple[File, str, str | None]] = []

    async def store_flow(self, name: str, spec: Any) -> None:
        """Store the files of a field, and put their ids into the form."""
        for path, upload in self._sent.items():
            place = path.removesuffix("!")
            if not path.endswith("!") or not _forms.is_of(name, place):
                continue
            leaf = _forms.leaf_at(spec, name, self._form, place)
            if leaf is not None and leaf.input == "file":
                metadata = {"contentType": upload.kind, MARK: self._title}
                file = await self._port.call(File.put, upload.file, upload.name, metadata=metadata)
                self._stored.append((file, place, self._form.get(place)))
                self._form[place] = leaf.write(file)

    async def withdraw_flow(self) -> None:
        """Delete the files, and tell the user to choose them again."""
        for file, place, before in self._stored:
            await self._port.call(file.delete)
            self._form.pop(place)
            if before is not None:
                self._form[place] = before
            self._faults.setdefault(place, "this file was not stored; choose it again")
        self._stored.clear()

    def check(self, name: str, value: Any) -> None:
        """Refuse a field's value that names a file neither in its document before nor uploaded with the form.

        The form contains ids of files, so a user could send the id of a file that they may not see.
        """
        if not files_in(value) <= self._had.union(file for file, *_ in self._stored):
            self._faults[name] = "expected a file of this document, or an upload"


async def clear_flow(port: Port, title: str, files: frozenset[File]) -> None:
    """Delete the files of a document that was deleted, or that has other files now.

    Files that the admin did not upload for this model stay: the program may use them elsewhere.

    Args:
        port: how to wait.
        title: the name of the document's model.
        files: the files.
    """
    for file in files:
        try:
            stream = await port.finish(_opened(file, port))
            is_ours = (stream.metadata or {}).get(MARK) == title
            await port.finish(stream.close())
            if is_ours:
                await port.call(file.delete)
        except NoFile:
            pass
        except PyMongoError as error:
            # The document is already stored or deleted; a file left over is no fault of the user.
            log.warning("the former file %r of a %s was not deleted: %s", file.id, title, error)


class Download:
    """The bytes of a file, piece by piece."""

    is_endless = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def part_flow(self, port: Port) -> bytes | None:
        """Return the next piece, or None at the end."""
        piece: bytes = await port.finish(self._stream.read(PIECE))
        return piece or None

    async def close_flow(self, port: Port) -> None:
        """Close the file."""
        await port.finish(self._stream.close())


async def download_flow(port: Port, file: File, *, with_body: bool) -> Response:
    """Return the response with a file's bytes.

    Raises:
        NoFile: there is no such file.
    """
    stream = await port.finish(_opened(file, port))
    headers = (
        ("Content-Type", "application/octet-stream"),
        ("Content-Disposition", "attachment"),
        ("Cache-Control", "no-store"),
        ("Content-Length", str(stream.length)),
    )
    if with_body:
        return Response(headers=headers, stream=Download(stream))
    await port.finish(stream.close())
    return Response(headers=headers)


def _opened(file: File, port: Port) -> Any:
    return bucket_of(file.bucket, file.alias, port.is_async).open_download_stream(file.id)


def files_of(document: Any) -> frozenset[File]:
    """Return the files that a document names."""
    return files_in([held(document, name) for name in type(document).__plan__.fields])


def erased_files(admin: Admin, erased: Iterable[tuple[Any, Any]]) -> dict[str, frozenset[File]]:
    """Return the files of erased documents, by the name of their model in the admin.

    A history still names its files, so those of `Audited` models are not among them.

    Args:
        admin: the admin.
        erased: models with documents as they were stored.
    """
    found: dict[str, frozenset[File]] = {}
    for model, stored in erased:
        shown = admin.by_model(model)
        if shown is None or issubclass(model, Audited) or not file_fields(model):
            continue
        try:
            (document,) = _core.odm_decode_all(model.__model__, stored.raw)
        except ValidationError as error:
            log.warning("the files of a deleted %s were not deleted: %s", shown.title, error)
            continue
        found[shown.title] = found.get(shown.title, frozenset()) | files_of(document)
    return found


def file_fields(model: Any) -> list[str]:
    """Return the fields of a model that may name files."""
    found = model.__plan__.fields.items()
    return [name for name, field in found if _may_name_files(field, {model})]


def _may_name_files(field: Any, seen: set[Any]) -> bool:
    for part in classes_in(field.type, field.info.owner):
        if part is File:
            return True
        if is_embedded(part):
            # Members of a family may have more fields.
            for model in (part, *part.__tagged__()):
                if model not in seen:
                    seen.add(model)
                    if any(_may_name_files(inner, seen) for inner in model.__plan__.fields.values()):
                        return True
    return False


def files_in(value: Any) -> frozenset[File]:
    """Return the files in a value."""
    found: list[File] = []
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, File):
            found.append(part)
        elif isinstance(part, Embedded):
            rest += [held(part, name) for name in type(part).__plan__.fields]
        elif isinstance(part, dict):
            rest += part.values()
        elif isinstance(part, (list, tuple, set, frozenset)):
            rest += part
    return frozenset(found)
