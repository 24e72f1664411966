"""The inputs of a form, made of the described types of its fields and of its texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel.admin._forms import MOVED, Form, item_of, kinds_of, open_fields, row_count
from mangonel.admin._layout import name_text
from mangonel.admin._markup import Markup, join, tag
from mangonel.admin._request import Request
from mangonel.admin._texts import Leaf, Spec, leaf_of

if TYPE_CHECKING:
    from mangonel.admin._site import Admin

# Longer texts get a text area.
LINE = 60


class Widgets:
    """Makes the inputs of one form.

    Args:
        admin: the admin, which knows the targets of references.
        request: the request that is answered.
        form: the texts of the form.
        faults: why values were refused, by path.
        notes: other remarks about values, by path.
    """

    def __init__(
        self, admin: Admin, request: Request, form: Form, faults: dict[str, str], notes: Form | None = None
    ) -> None:
        self._notes = notes or {}
        self._admin = admin
        self._request = request
        self._form = form
        self._faults = faults
        self.has_files = False

    def field(self, spec: Spec, path: str, label: str, *extra: Any) -> Markup:
        """Return the inputs of a value with their label.

        Args:
            spec: the description of its type.
            path: its path.
            label: its name.
            extra: content beside the label, such as the box that removes a row.
        """
        kinds = kinds_of(spec)
        fault = self._fault(path)
        if spec["op"] in ("list", "set", "frozenset", "tuple_of", "tuple", "refs", "dict"):
            return tag("fieldset", tag("legend", label), extra, fault, self._rows(spec, path, label))
        if kinds:
            return tag(
                "fieldset", tag("legend", label), extra, fault, self._embedded(spec, kinds, path, label)
            )
        return tag(
            "div", tag("label", label, for_=path), self._input(spec, path), extra, fault, class_="field"
        )

    def _fault(self, path: str) -> Markup | None:
        text, note = self._faults.get(path), self._notes.get(path)
        if text:
            return tag("p", text, class_="fault", id=f"{path}!")
        return tag("p", note, class_="hint", id=f"{path}!") if note else None

    def _mark(self, path: str, value: str) -> Markup:
        return tag("input", type="hidden", name=f"{path}?", value=value)

    def _add(self, wanted: str, text: str) -> Markup:
        return tag("button", text, name="_add", value=wanted, formnovalidate=True, class_="small")

    def _move(self, at: str, way: str, sign: str) -> Markup:
        asked = {"name": "_move", "value": f"{at}:{way}", "aria_label": f"Move {name_text(at)} {way}"}
        return tag("button", sign, **asked, formnovalidate=True, class_="small")

    def _embedded(self, spec: Spec, kinds: dict[str, Any], path: str, label: str) -> Markup:
        mark = self._form.get(f"{path}?", "")
        buttons = [self._add(f"{path}:{kind}", f"Set {kind}") for kind in kinds if kind != mark]
        if mark not in kinds:
            plain = None
            if spec["op"] == "union" and spec["argument"][2]:
                plain = tag("div", tag("label", "Value", for_=path), self._input(spec, path), class_="field")
            return join(self._mark(path, ""), plain, tag("div", buttons))
        inner = [
            self.field(part, f"{path}.{name}", name_text(name)) for name, part in open_fields(kinds[mark])
        ]
        if len(kinds) == 1 and not spec["nullable"]:
            return join(self._mark(path, mark), inner)
        choices = [tag("option", kind, value=kind, selected=kind == mark) for kind in (mark,)]
        if spec["nullable"]:
            choices.append(tag("option", "none", value=""))
        chosen = tag("label", "Kind ", tag("select", choices, name=f"{path}?"))
        return join(chosen, inner, tag("div", buttons))

    def _rows(self, spec: Spec, path: str, label: str) -> Markup:
        form = self._form
        is_there = form.get(f"{path}?", "") != ""
        if not is_there:
            return join(self._mark(path, ""), self._add(path, f"Set {label}"))
        count = row_count(form, path)
        rows = [self._row(spec, f"{path}.{place}", place) for place in range(count)]
        counted = tag("input", type="hidden", name=f"{path}#", value=count)
        choices = [tag("option", "set", value="1"), tag("option", "none", value="")]
        mark = (
            tag("select", choices, name=f"{path}?", aria_label=label)
            if spec["nullable"]
            else self._mark(path, "1")
        )
        more = None if spec["op"] == "tuple" else self._add(path, "Add a row")
        return join(mark, counted, tag("ol", rows, start=0), more)

    def _row(self, spec: Spec, at: str, place: int) -> Markup:
        form = self._form
        away = moved = None
        if spec["op"] in MOVED:
            before = form.get(f"{at}^")
            last = row_count(form, at.rpartition(".")[0]) - 1
            ways = [("up", "↑", place > 0), ("down", "↓", place < last)]
            moved = tag(
                "span",
                tag("input", type="hidden", name=f"{at}^", value=before) if before is not None else None,
                [self._move(at, way, sign) for way, sign, is_there in ways if is_there],
                class_="away",
            )
        if spec["op"] != "tuple":
            box = tag("input", type="checkbox", name=f"{at}-", value="1", checked=bool(form.get(f"{at}-")))
            away = tag("label", box, " remove", class_="away")
        key = None
        if spec["op"] == "dict":
            text = form.get(f"{at}@", "")
            has_lines = "\n" in text or "\r" in text
            entry = (
                tag("textarea", text, name=f"{at}@") if has_lines else tag("input", name=f"{at}@", value=text)
            )
            key = tag("label", "Key ", entry)
        return tag("li", key, self.field(item_of(spec, place), at, f"{place}", away, moved))

    def _input(self, spec: Spec, path: str) -> Markup:
        leaf = leaf_of(spec) or Leaf(str, str)
        text = self._form.get(path)
        if text is None and leaf.input not in ("secret", "file"):
            return tag("p", "This value cannot be shown in a form; it stays as it is.", class_="hint")
        text = text or ""
        shared: dict[str, Any] = {"id": path, "name": path}
        if path in self._faults:
            shared |= {"aria_invalid": "true", "aria_describedby": f"{path}!"}
        checks = dict(spec["checks"])
        if leaf.input == "select":
            options = [
                tag("option", label, value=value, selected=value == text) for value, label in leaf.options
            ]
            return tag("select", tag("option", NO_CHOICE, value="", selected=text == ""), options, **shared)
        if leaf.input == "secret":
            return tag("input", type="password", autocomplete="new-password", **shared)
        if leaf.input == "file":
            self.has_files = True
            return join(
                tag("input", type="hidden", name=path, value=text),
                tag("input", type="file", id=path, name=f"{path}!"),
            )
        if spec["op"] == "ref":
            return self._reference(spec, text, shared)
        if leaf.input == "json" or "\n" in text or "\r" in text or len(text) > LINE:
            return tag("textarea", text, rows=min(12, 2 + len(text) // LINE + text.count("\n")), **shared)
        if leaf.input == "decimal":
            return tag("input", type="text", inputmode="decimal", value=text, **shared)
        if leaf.input == "number":
            # Browsers compare bounds as doubles; the server decides on the large ones.
            step, low = checks.get("multiple_of", 1), checks.get("ge")
            # Browsers count steps from the minimum, or from the current value.
            low = low if low is None else -(-low // step) * step
            if low is None and not _is_multiple(text, step):
                step = "any"
            bounds = {"min": low, "max": checks.get("le")}
            # Browsers would also refuse to send a form whose old value breaks a bound.
            near = {
                name: bound
                for name, bound in bounds.items()
                if bound is not None and abs(bound) < 2**53 and _keeps(text, name, bound)
            }
            return tag("input", type="number", step=step, value=text, **near, **shared)
        if leaf.input == "datetime-local":
            return tag("input", type=leaf.input, step="0.001", value=text, **shared)
        return tag("input", type=leaf.input, value=text, maxlength=checks.get("max_length"), **shared)

    def _reference(self, spec: Spec, text: str, shared: dict[str, Any]) -> Markup:
        shown = self._admin.by_model(spec["argument"][0].target)
        if shown is None:
            return tag("input", type="text", value=text, **shared)
        path = shared["id"]
        find = self._request.link(shown.title, "find")
        entry = tag(
            "input", type="text", value=text, list=f"{path}~", data_find=find, autocomplete="off", **shared
        )
        link = tag("a", f"Open {shown.title}", href=self._request.link(shown.title, "document", id=text))
        return join(entry, tag("datalist", id=f"{path}~"), " ", link if text else None)


def _is_multiple(text: str, step: Any) -> bool:
    """Return whether a text is empty or a multiple."""
    try:
        return not text or int(text) % step == 0
    except ValueError:
        return False


def _keeps(text: str, name: str, bound: Any) -> bool:
    """Return whether a text is no number, or one that keeps a bound."""
    try:
        return int(text) >= bound if name == "min" else int(text) <= bound
    except ValueError:
        return True


NO_CHOICE = "—"
