"""A document's form that is submitted unchanged changes nothing, for every type that a model may have."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from admin_models import Card, Everything, Part
from admin_visitor import Page
from annotated_types import Ge, MultipleOf
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mangonel.admin import Admin, _forms
from mangonel.admin._request import Request
from mangonel.admin._widgets import Widgets
from mangonel.bson import Int64
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.specs import spec_of
from mangonel.odm.testing import from_model, make
from mangonel.websessions import WebSessions

ADMIN = Admin(Everything, sessions=WebSessions("memory:"), allowed=lambda *asked: True)
SESSION: Any = SimpleNamespace(user="ada")
REQUEST = Request("GET", "", "/", {}, SESSION, lambda name: None)


def sent_back(document: Any) -> dict[str, str]:
    """Return the fields that a browser submits from a document's form."""
    form: dict[str, str] = {}
    for name, spec in _forms.fields_of(type(document)):
        _forms.write(spec, name, held(document, name), form)
    widgets = Widgets(ADMIN, REQUEST, form, {})
    inputs = "".join(widgets.field(spec, name, name) for name, spec in _forms.fields_of(type(document)))
    return Page(f'<form method="post">{inputs}</form>').form


def read(document: Any, form: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a form's changes to a document, and the faults."""
    faults: dict[str, str] = {}
    found = {
        name: _forms.read(spec, name, form, held(document, name), faults)
        for name, spec in _forms.fields_of(type(document))
    }
    return {name: value for name, value in found.items() if value is not _forms.SAME}, faults


@settings(suppress_health_check=list(HealthCheck))
@given(from_model(Everything))
@example(make(Everything, text="\n\r\n<script>&amp;\x00", anything={"$date": "no"}, maybe=""))
@example(make(Everything, counts={"a\nb": 1, " c\r": 2}, texts=["\n", " "]))
@example(make(Everything, anything=[Int64(3), 3.0, None, {"a.b": {"$x": 1}}], maybe_part=Part(name="\r")))
def test_a_form_sent_back_unchanged_changes_nothing(document: Any) -> None:
    before = document.to_bson()
    changes, faults = read(document, sent_back(document))
    assert (changes, faults) == ({}, {})
    assert document.to_bson() == before


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(from_model(Everything), st.sampled_from(list(Everything.__plan__.fields)))
def test_every_value_is_read_from_its_text(document: Any, name: str) -> None:
    form = sent_back(document)
    texts = [text for key, text in form.items() if _forms.is_of(name, key) and key[-1] not in "?#@"]
    faults: dict[str, str] = {}
    value = _forms.read(dict(_forms.fields_of(Everything))[name], name, form, _forms.ABSENT, faults)
    # A new document takes an empty text as missing, a secret is not submitted, and no form carries CR or NUL.
    is_carried = not any(sign in repr(held(document, name)) for sign in ("\\r", "\\x00"))
    # A new row without rows of its own counts as missing too.
    has_empty = any(form[key] == "0" for key in form if key.startswith(f"{name}.") and key.endswith("#"))
    if "" in texts or name == "secret" or has_empty or not is_carried:
        return
    assert not faults
    before = held(document, name)
    if texts:
        setattr(document, name, value)
    assert held(document, name) == before


@pytest.mark.parametrize("text", ["-", "1.5", "", " ", "1e3"])
def test_a_text_that_is_no_number_is_a_fault_and_no_value(text: str) -> None:
    document = make(Everything, whole=1)
    changes, faults = read(document, {**sent_back(document), "whole": text})
    assert changes == {}
    assert "expected a whole number" in faults["whole"]


def test_rows_that_a_form_does_not_know_of_stay() -> None:
    document = make(Everything, texts=["a", "b"], parts=[make(Part), make(Part)])
    form = sent_back(document)
    document.texts.append("c")
    document.parts.append(make(Part))
    changes, _ = read(document, {**form, "texts.0": "z", "parts.1-": "1"})
    assert changes["texts"] == ["z", "b", "c"]
    assert changes["parts"] == [document.parts[0], document.parts[2]]


def test_keys_of_a_dict_are_renamed_and_never_twice() -> None:
    document = make(Everything, counts={"a": 1, "b": 2})
    form = sent_back(document)
    assert read(document, {**form, "counts.0@": "c"})[0]["counts"] == {"c": 1, "b": 2}
    assert "each key once" in read(document, {**form, "counts.0@": "b"})[1]["counts"]


def test_an_embedded_document_keeps_keys_that_its_model_does_not_know() -> None:
    document = make(Everything, payment=Card(number="1"))
    payment = document.payment
    changes, _ = read(document, {**sent_back(document), "payment.number": "2"})
    assert changes == {}
    assert document.payment is payment
    assert payment.number == "2"
    changes, _ = read(document, {**sent_back(document), "payment?": "Bank", "payment.iban": "X"})
    assert changes["payment"].iban == "X"


@pytest.mark.parametrize("wanted", ["text", "parts.9", "parts.x", "pair", "part:Nothing", "payment.number"])
def test_only_lists_and_embedded_documents_are_added_to(wanted: str) -> None:
    name = wanted.partition(":")[0].partition(".")[0]
    spec = dict(_forms.fields_of(Everything))[name]
    form = sent_back(make(Everything))
    before = dict(form)
    with pytest.raises(ValueError, match="expected a list or an embedded document"):
        _forms.add(spec, name, form, wanted)
    assert form == before


@pytest.mark.parametrize(
    ("constraints", "text", "wanted"),
    [
        ((Ge(3),), "4", {"step": "1", "min": "3"}),
        ((MultipleOf(5),), "10", {"step": "5", "min": None}),
        # Browsers count steps from the minimum, so the minimum has to be a multiple.
        ((MultipleOf(5), Ge(3)), "10", {"step": "5", "min": "5"}),
        # Or from the present value.
        ((MultipleOf(5),), "7", {"step": "any", "min": None}),
    ],
)
def test_a_browser_takes_each_number_that_the_field_takes(
    constraints: tuple[Any, ...], text: str, wanted: dict[str, str | None]
) -> None:
    spec = spec_of(int, constraints, False, Everything)
    made = Widgets(ADMIN, REQUEST, {"n": text}, {}).field(spec, "n", "N")
    for name, value in wanted.items():
        found = re.search(rf' {name}="([^"]*)"', made)
        assert (found and found[1]) == value


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("texts", ["a", "b"], "0 a, 1 b"),
        ("texts", [], "nothing"),
        ("counts", {"x": 1}, "0 x, 0 1"),
        ("maybe_part", None, "nothing"),
        ("payment", Card(number="7"), "Card, kind 0, number 7"),
        ("text", "Bread", "Bread"),
        ("literal", "x", "x"),
        ("flag", False, "no"),
    ],
)
def test_a_field_is_said_without_the_marks_of_a_form(name: str, value: Any, said: str) -> None:
    spec = _forms.described(Everything, name)
    assert _forms.said(spec, name, sent_back(make(Everything, **{name: value}))) == said
