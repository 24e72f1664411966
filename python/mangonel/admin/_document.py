"""The pages of one document: its form, which also serves a new document, its deletion, history and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel.admin import _forms
from mangonel.admin._allowed import listed_flow, may_flow, narrowed
from mangonel.admin._files import Uploads, clear_flow, download_flow, erased_files, file_fields, files_of
from mangonel.admin._forms import ABSENT, SAME, Form
from mangonel.admin._layout import cell, misfit, name_text, page, post_form
from mangonel.admin._markup import join, tag
from mangonel.admin._references import check_references_flow, references_of
from mangonel.admin._request import Refused, Request, Response
from mangonel.admin._texts import shown_json
from mangonel.admin._widgets import Widgets
from mangonel.bson.errors import BSONError
from mangonel.errors import DuplicateKeyError, WriteError
from mangonel.gridfs import NoFile
from mangonel.odm import Audited, File
from mangonel.odm.connections.place import place_of
from mangonel.odm.errors import (
    DanglingReference,
    DeleteDenied,
    DocumentNotFound,
    StaleDocument,
    ValidationError,
    WrongTenant,
)
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.convert import from_dict
from mangonel.odm.query.rules import erased_documents, rules_of
from mangonel.odm.store.history import acting_as
from mangonel.odm.store.writes import cascades_flow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mangonel.admin._port import Port
    from mangonel.admin._shown import ShownModel
    from mangonel.admin._site import Admin

CONFLICT = "Another writer changed this document meanwhile. Nothing was saved; save again to replace the stored values."
# Errors of a write that the user can do something about.
REFUSALS = (WriteError, BSONError, OverflowError, DanglingReference, ValidationError, DeleteDenied)


async def found_flow(
    admin: Admin, port: Port, request: Request, shown: ShownModel, action: str = "view"
) -> Any:
    """Return the document that the address names.

    Raises:
        Refused: there is none, it does not fit its model, or the user may not do this with it.
    """
    try:
        query = shown.model.find(shown.model.id == shown.id_of(request.query.get("id", "")))
        document = await port.call(narrowed(query, request.listed).first)
    except ValidationError as error:
        raise Refused(422, misfit(shown, error)) from error
    except (ValueError, ArithmeticError) as error:
        raise Refused(404, f"no {shown.title} has this id") from error
    if document is None or not await may_flow(admin, port, request, "view", shown, document):
        raise Refused(404, f"no {shown.title} has this id")
    if action != "view" and (
        shown.fixes(document) or not await may_flow(admin, port, request, action, shown, document)
    ):
        raise Refused(403, f"you may not {action} this {shown.title}")
    return document


async def document_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    """Show a document with its form, or save the form."""
    if request.method == "POST":
        return await _save_flow(admin, port, request, shown)
    document = await found_flow(admin, port, request, shown)
    is_fixed = shown.fixes(document)
    may_change = not is_fixed and await may_flow(admin, port, request, "change", shown, document)
    may_delete = not is_fixed and await may_flow(admin, port, request, "delete", shown, document)
    form = _form_of(shown, document) if may_change else {}
    notes: Form = {}
    if may_change:
        found = _forms.misfits(document, shown.edited(type(document), is_new=False))
        notes = {
            path: f"{text}; it is stored so, and stays until this field is changed" for path, text in found
        }
    return _page(
        admin, request, shown, document, form, {}, may_change=may_change, may_delete=may_delete, notes=notes
    )


def _form_of(shown: ShownModel, document: Any) -> Form:
    """Return the form of a document, with a digest of each field."""
    form: Form = {}
    for name, spec in shown.edited(type(document), is_new=False):
        texts: Form = {}
        _forms.write(spec, name, held(document, name), texts)
        form |= texts
        form[f"_was.{name}"] = _forms.digest(name, texts)
    return form


def _page(
    admin: Admin,
    request: Request,
    shown: ShownModel,
    document: Any,
    form: Form,
    faults: dict[str, str],
    *,
    may_change: bool = True,
    may_delete: bool = False,
    notes: Form | None = None,
) -> Response:
    id = shown.id_text(document.id)
    edited = shown.edited(type(document), is_new=False) if may_change else []
    names = {name for name, _ in edited}
    facts = [
        (tag("dt", name_text(name)), tag("dd", cell(admin, request, spec, held(document, name))))
        for name, spec in shown.fields(type(document))
        if name not in names
    ]
    files = [
        tag("a", f"Download {name_text(name)}", href=request.link(shown.title, "file", id=id, field=name))
        for name, _ in shown.fields(type(document))
        if isinstance(held(document, name), File)
    ]
    links = [
        *files,
        tag("a", "History", href=request.link(shown.title, "history", id=id))
        if isinstance(document, Audited)
        else None,
        tag("a", "Delete", href=request.link(shown.title, "delete", id=id), class_="danger")
        if may_delete
        else None,
    ]
    return page(
        admin,
        request,
        shown.name_of(document),
        tag("p", tag("a", shown.title, href=request.link(shown.title))),
        tag("dl", facts),
        _form(admin, request, edited, form, faults, request.link(shown.title, "document", id=id), notes)
        if edited
        else None,
        tag("p", [(link, " ") for link in links if link is not None]),
        status=409 if "" in faults else 422 if faults else 200,
    )


def _form(
    admin: Admin,
    request: Request,
    edited: list[tuple[str, Any]],
    form: Form,
    faults: dict[str, str],
    address: str,
    notes: Form | None = None,
) -> Any:
    widgets = Widgets(admin, request, form, faults, notes)
    fields = [
        (
            widgets.field(spec, name, name_text(name)),
            tag("input", type="hidden", name=f"_was.{name}", value=form.get(f"_was.{name}", "")),
        )
        for name, spec in edited
    ]
    return post_form(
        request,
        address,
        # The Enter key presses the first button.
        tag("button", "Save", name="_save", value="1", class_="first", tabindex=-1, aria_hidden="true"),
        tag("p", faults[""], class_="flash error", role="alert") if "" in faults else None,
        fields,
        tag("p", tag("button", "Save", name="_save", value="1")),
        enctype="multipart/form-data" if widgets.has_files else None,
    )


async def _save_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    # Read before the instance: another writer's change between the two fails the guard.
    before = await _stored_flow(port, request, shown)
    document = await found_flow(admin, port, request, shown, "change")
    edited = shown.edited(type(document), is_new=False)
    form = dict(request.form)
    faults: dict[str, str] = {}
    if _is_rearranged(edited, form):
        return _page(admin, request, shown, document, form, {})
    stored = _form_of(shown, document)
    had, referred = files_of(document), references_of(admin, document)
    uploads = Uploads(port, request, shown.title, form, faults, had)
    for name, spec in edited:
        if not _is_touched(name, form, request):
            continue
        if form.get(f"_was.{name}") != stored[f"_was.{name}"]:
            faults[name] = "another writer changed this field meanwhile"
            continue
        await uploads.store_flow(name, spec)
        _take(document, name, _forms.read(spec, name, form, held(document, name), faults), faults)
        uploads.check(name, held(document, name))
    await check_references_flow(admin, port, request, references_of(admin, document) - referred, faults)
    conflicts = [name for name, text in faults.items() if "another writer" in text]
    if faults:
        await uploads.withdraw_flow()
    if conflicts:
        return _conflict(admin, request, shown, edited, form, stored, conflicts)
    if faults:
        return _page(admin, request, shown, document, form, faults)
    try:
        with acting_as(request.user):
            await port.call(document.save, where=_guard(document, before, document.changes()))
    except (StaleDocument, DocumentNotFound):
        await uploads.withdraw_flow()
        changed = await found_flow(admin, port, request, shown, "change")
        return _conflict(admin, request, shown, edited, form, _form_of(shown, changed), [])
    except REFUSALS as error:
        await uploads.withdraw_flow()
        _note(error, faults, shown, type(document))
        return _page(admin, request, shown, document, form, _at_top(faults, edited))
    if not isinstance(document, Audited):
        await clear_flow(port, shown.title, had - files_of(document))
    request.session.flash(f"{shown.name_of(document)} is saved.")
    return Response.to(request.link(shown.title, "document", id=shown.id_text(document.id)))


async def _stored_flow(port: Port, request: Request, shown: ShownModel) -> dict[str, Any]:
    try:
        query = shown.model.find(shown.model.id == shown.id_of(request.query.get("id", "")))
    except (ValueError, ArithmeticError) as error:
        raise Refused(404, f"no {shown.title} has this id") from error
    found: list[dict[str, Any]] = await port.call(query.dicts)
    return found[0] if found else {}


def _note(error: Exception, faults: dict[str, str], shown: ShownModel, model: Any) -> None:
    """Add the reason why a whole document was refused, without hidden values."""
    fields = dict(shown.fields(model))
    # The server's message quotes the document, including fields that the user may not see.
    if isinstance(error, DuplicateKeyError):
        found: Any = (error.details or {}).get("keyPattern") or {}
        keys = {field.key: name for name, field in model.__plan__.fields.items()}
        names = [keys.get(key.partition(".")[0], "") for key in found]
        told = [name for name in names if name in fields] + (["others"] if set(names) - fields.keys() else [])
        faults[""] = (
            f"duplicate: another {shown.title} has the same {', '.join(map(name_text, told)) or 'values'}"
        )
    elif isinstance(error, WriteError):
        faults[""] = f"the server refuses this document (error {error.code})"
    elif isinstance(error, ValidationError):
        found = {}
        _forms.note(error, "", "", found)
        for path, text in found.items():
            is_told = not path or path.partition(".")[0] in fields
            faults[path if is_told else ""] = (
                text if is_told else "a field that is not shown does not fit its model"
            )
    else:
        _forms.note(error, "", "", faults)


def _is_touched(name: str, form: Form, request: Request) -> bool:
    """Return whether the user changed a field in the form."""
    return _forms.digest(name, form) != form.get(f"_was.{name}") or any(
        _forms.is_of(name, path.removesuffix("!")) for path in request.files
    )


def _take(document: Any, name: str, value: Any, faults: dict[str, str]) -> None:
    """Set an attribute; a value that it refuses becomes a fault."""
    if value is SAME:
        return
    try:
        setattr(document, name, value)
    except (ValidationError, TypeError, AttributeError) as error:
        _forms.note(error, "", name, faults)


def _guard(document: Any, before: dict[str, Any], names: Iterable[str]) -> dict[str, Any] | None:
    """Return the condition that the stored values of these fields have not changed."""
    found: dict[str, Any] = {}
    for name in names:
        field = type(document).__plan__.fields[name]
        if field.encrypted is None:
            found[field.key] = {"$eq": before[field.key]} if field.key in before else {"$exists": False}
    return found or None


def _conflict(
    admin: Admin,
    request: Request,
    shown: ShownModel,
    edited: list[tuple[str, Any]],
    form: Form,
    stored: Form,
    names: list[str],
) -> Response:
    """Return the sent form beside the values that are stored now; sending it again replaces them."""
    sent = {**form, **{key: text for key, text in stored.items() if key.startswith("_was.")}}
    # Fields that the user did not touch are shown as stored.
    for name, _ in edited:
        if name not in names and not _is_touched(name, form, request):
            for key in [key for key in sent if _forms.is_of(name, key)]:
                del sent[key]
            sent |= {key: text for key, text in stored.items() if _forms.is_of(name, key)}
    faults = {
        name: f"stored meanwhile: {_forms.said(spec, name, stored)}"
        for name, spec in edited
        if form.get(f"_was.{name}") != stored[f"_was.{name}"] and _is_touched(name, form, request)
    }
    faults[""] = CONFLICT
    address = request.link(shown.title, "document", id=request.query.get("id", ""))
    return page(
        admin,
        request,
        f"{shown.title}: conflict",
        tag("p", tag("a", shown.title, href=request.link(shown.title))),
        _form(admin, request, edited, sent, faults, address),
        status=409,
    )


def _at_top(faults: dict[str, str], edited: list[tuple[str, Any]]) -> dict[str, str]:
    """Return the faults; those without a field in the form are moved to its top."""
    names = {name for name, _ in edited}
    top = [text for path, text in faults.items() if path.partition(".")[0] not in names]
    rest = {path: text for path, text in faults.items() if path.partition(".")[0] in names}
    return {**rest, "": "; ".join(top)} if top else rest


def _is_rearranged(edited: list[tuple[str, Any]], form: Form) -> bool:
    """Add or move a row, if a button for that was pressed; return whether one was."""
    for button, change in (("_add", _forms.add), ("_move", _forms.move)):
        wanted = form.pop(button, None)
        if wanted is None:
            continue
        name = wanted.partition(":")[0].partition(".")[0]
        spec = dict(edited).get(name)
        try:
            if spec is None:
                raise ValueError(f"no field {name}")
            change(spec, name, form, wanted)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        return True
    return False


async def new_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    """Show the form of a new document, or insert the document."""
    if shown.is_fixed or not await may_flow(admin, port, request, "create", shown):
        raise Refused(403, f"you may not create a {shown.title}")
    model = shown.model
    edited = shown.edited(model, is_new=True)
    form = dict(request.form)
    faults: dict[str, str] = {}
    if request.method == "GET":
        for name, spec in edited:
            _forms.start(model, name, spec, name, form)
        return _new_page(admin, request, shown, edited, form, {})
    if _is_rearranged(edited, form):
        return _new_page(admin, request, shown, edited, form, {})
    values: dict[str, Any] = {}
    uploads = Uploads(port, request, shown.title, form, faults)
    for name, spec in edited:
        await uploads.store_flow(name, spec)
        value = _forms.read(spec, name, form, ABSENT, faults)
        if value is not SAME:
            values[name] = value
            uploads.check(name, value)
    if not faults:
        document: Any = None
        try:
            document = from_dict(model, values)
            if not await may_flow(admin, port, request, "create", shown, document):
                await uploads.withdraw_flow()
                raise Refused(403, f"you may not create this {shown.title}")
            await check_references_flow(admin, port, request, references_of(admin, document), faults)
            if not faults:
                with acting_as(request.user):
                    await port.call(document.insert)
        except (*REFUSALS, TypeError) as error:
            _note(error, faults, shown, model)
        if not faults:
            request.session.flash(f"{shown.name_of(document)} is created.")
            return Response.to(request.link(shown.title, "document", id=shown.id_text(document.id)))
    await uploads.withdraw_flow()
    return _new_page(admin, request, shown, edited, form, _at_top(faults, edited))


def _new_page(
    admin: Admin,
    request: Request,
    shown: ShownModel,
    edited: list[tuple[str, Any]],
    form: Form,
    faults: dict[str, str],
) -> Response:
    address = request.link(shown.title, "new")
    content = _form(admin, request, edited, form, faults, address)
    return page(admin, request, f"New {shown.title}", content, status=422 if faults else 200)


async def delete_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    """Ask whether to delete a document, or delete it together with the files that the admin uploaded for it."""
    before = await _stored_flow(port, request, shown) if request.method == "POST" else {}
    document = await found_flow(admin, port, request, shown, "delete")
    await _check_cascades_flow(admin, port, request, shown, document)
    name, id = shown.name_of(document), shown.id_text(document.id)
    fault = None
    if request.method == "POST":
        # A history, or a document that is only marked as deleted, still names its files.
        is_kept = isinstance(document, Audited) or type(document).__soft_delete__()
        # Another writer's upload would stay in GridFS if it replaced one of them now.
        guard = None if is_kept else _guard(document, before, file_fields(type(document)))
        try:
            with acting_as(request.user), erased_documents() as erased:
                await port.call(document.delete, where=guard)
        except StaleDocument:
            fault = "Another writer changed this document meanwhile. Nothing was deleted; delete again if you are sure."
        except DeleteDenied as error:
            fault = await _denial_flow(admin, port, request, document, error)
        except DocumentNotFound:
            pass
        if fault is None:
            for title, files in erased_files(admin, erased).items():
                await clear_flow(port, title, files)
            request.session.flash(f"{name} is deleted.")
            return Response.to(request.link(shown.title))
    question = f"Delete {shown.title} {name}?"
    sure = post_form(
        request, request.link(shown.title, "delete", id=id), tag("button", "Delete", class_="danger")
    )
    back = tag("a", "Back", href=request.link(shown.title, "document", id=id))
    said = tag("p", fault, class_="flash error", role="alert") if fault else None
    return page(admin, request, question, said, sure, back, status=409 if fault else 200)


async def _check_cascades_flow(
    admin: Admin, port: Port, request: Request, shown: ShownModel, document: Any
) -> None:
    """Refuse a deletion whose rules would also delete documents that the user may not delete.

    Raises:
        Refused: it would.
    """
    place = place_of(document, port.is_async)
    try:
        found = await port.finish(place.port.flow(cascades_flow(document, place)))
    except DeleteDenied:
        # The deletion itself reports the rule that denies it.
        return
    except WrongTenant as error:
        raise Refused(403, str(error)) from error
    for model, ids in found:
        other = admin.by_model(model)
        if other is None:
            continue
        for part in range(0, len(ids), PART):
            query = other.model.find(other.model.id.in_(ids[part : part + PART]), on_invalid="skip")
            for each in await port.call(query.all):
                if other.fixes(each) or not await may_flow(admin, port, request, "delete", other, each):
                    is_known = await listed_flow(admin, port, request, other) is not False
                    kind = other.title if is_known else "documents of another model"
                    raise Refused(
                        403,
                        f"you may not delete this {shown.title}: {kind} that you may not delete would go with it",
                    )


# How many documents one command checks.
PART = 1000


async def _denial_flow(admin: Admin, port: Port, request: Request, document: Any, error: DeleteDenied) -> str:
    """Return why a rule denies a deletion, without models whose documents the user may not list."""
    for other, _, rule in rules_of(type(document)):
        shown = admin.by_model(other)
        if rule == "deny" and shown is not None and await listed_flow(admin, port, request, shown) is False:
            return "other documents refer to it, which denies its deletion"
    return str(error)


async def history_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    """Show who changed a document, when, and which fields."""
    document = await found_flow(admin, port, request, shown)
    if not isinstance(document, Audited):
        raise Refused(404, f"{shown.title} keeps no history")
    specs = dict(shown.fields(type(document)))
    rows = []
    for revision in reversed(await port.call(document.history)):
        changes = []
        for name, both in revision.changes.items():
            if name in specs:
                old, new = (shown_json(_forms.without_secrets(specs[name], value)) for value in both)
                changes.append((tag("dt", name_text(name)), tag("dd", old, " → ", new)))
        at = tag("time", revision.at.isoformat(" ", "seconds"), datetime=revision.at.isoformat())
        by = "" if revision.by is None else str(revision.by)
        parts = (revision.number, at, by, revision.operation, tag("dl", changes))
        rows.append(tag("tr", [tag("td", part) for part in parts]))
    heads = [tag("th", text, scope="col") for text in ("Number", "At", "By", "Operation", "Changes")]
    back = tag("a", "Back", href=request.link(shown.title, "document", id=shown.id_text(document.id)))
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows))
    return page(admin, request, f"History of {shown.name_of(document)}", join(tag("p", back), table))


async def file_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    """Return a file of a document as a download, never displayed: its bytes come from the uploader."""
    document = await found_flow(admin, port, request, shown)
    name = request.query.get("field", "")
    file = held(document, name) if name in dict(shown.fields(type(document))) else None
    if not isinstance(file, File):
        raise Refused(404, "no such file")
    try:
        return await download_flow(port, file, with_body=request.method != "HEAD")
    except NoFile as error:
        raise Refused(404, "no such file") from error
