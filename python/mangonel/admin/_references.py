"""The references that a form stores: new ones may lead only to documents that the user may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mangonel.admin._allowed import seen_flow
from mangonel.odm._registry import is_document
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.held_references import references_in
from mangonel.odm.model.refs import Refs

if TYPE_CHECKING:
    from mangonel.admin._port import Port
    from mangonel.admin._request import Request
    from mangonel.admin._site import Admin


class Target(NamedTuple):
    """A document of a model of the admin, which a field refers to: the field, the model's title, the id as text."""

    field: str
    title: str
    id: str


def references_of(admin: Admin, document: Any) -> set[Target]:
    """Return the documents that a document refers to, of the models that the admin shows.

    Args:
        admin: the admin.
        document: the document, whose values are decoded.
    """
    found: set[Target] = set()
    for name in type(document).__plan__.fields:
        # Decodes the value: undecoded values are passed over below.
        held(document, name)
    for name, reference in references_in(document):
        refs = list(reference) if isinstance(reference, Refs) else [reference]
        for ref in refs:
            maker = getattr(ref, "_maker", None)
            model = type(ref) if is_document(ref) else maker.target if maker is not None else None
            shown = admin.by_model(model)
            if shown is not None:
                found.add(Target(name, shown.title, shown.id_text(ref.id)))
    return found


async def check_references_flow(
    admin: Admin, port: Port, request: Request, targets: set[Target], faults: dict[str, str]
) -> None:
    """Refuse references to documents that do not exist or that the user may not see, without telling which.

    Args:
        admin: the admin.
        port: how to wait.
        request: the request.
        targets: the references that are new in the form.
        faults: gets the refused fields, with the reasons.
    """
    for title in sorted({target.title for target in targets}):
        shown = admin.by_title(title)
        assert shown is not None
        ids = {target.id for target in targets if target.title == title}
        seen = await seen_flow(admin, port, request, shown, [shown.id_of(id) for id in ids])
        for field, _, id in sorted(target for target in targets if target.title == title):
            if id not in seen:
                faults.setdefault(field, f"expected a {title} that you may see, got {id}")
