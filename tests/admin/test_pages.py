"""The pages of the admin: lists, forms, conflicts, references, files, history and permissions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from admin_models import (
    Album,
    Author,
    Cellar,
    Comment,
    Contract,
    Picture,
    Pin,
    Place,
    Post,
    Scan,
    Thumbnail,
    Vault,
    Wallet,
)
from admin_visitor import Visitor

from mangonel.admin import Admin, Shown
from mangonel.admin._files import file_fields
from mangonel.bson import ObjectId
from mangonel.errors import NetworkTimeout
from mangonel.odm import DeleteDenied, File, Secret, acting_as
from mangonel.websessions import WebSessions


def test_a_stranger_is_led_to_the_login_and_then_to_the_page_that_was_asked_for(stranger: Visitor) -> None:
    page = stranger.get("/Post?q=tea")
    assert "Log in" in page.text
    assert "do not go together" in stranger.send(page, 403, name="ada", password="wrong").text
    assert "No documents" in stranger.send(page, name="ada", password="right").text


def test_a_login_leads_to_no_other_site(stranger: Visitor) -> None:
    page = stranger.get("/-/login?next=https%3A%2F%2Felsewhere.example%2Fadmin%2F")
    answer = stranger.client.post(
        page.action, data={**page.form, "name": "ada", "password": "right"}, follow_redirects=False
    )
    assert answer.headers["location"] == "/admin/"


def test_a_logged_out_user_sees_no_page(ada: Visitor) -> None:
    token = ada.get("/Post/new").form["_csrf"]
    ada.client.post("/admin/-/logout", data={"_csrf": token})
    assert "Log in" in ada.get("/").text


def test_a_list_has_pages_without_gaps_in_the_order_that_was_asked_for(ada: Visitor) -> None:
    Post.insert_many([Post(title=f"post {number}", likes=number) for number in range(8)])
    page, seen = ada.get("/Post?sort=-likes"), []
    while True:
        seen += [name for name in page.links if name.startswith("post ")]
        if "Next page" not in page.links:
            break
        page = ada.get(page.links["Next page"])
    assert seen == [f"post {number}" for number in range(7, -1, -1)]


def test_the_way_back_leads_through_the_same_pages_to_the_first(ada: Visitor) -> None:
    Post.insert_many([Post(title=f"post {number}", likes=number) for number in range(8)])
    page = ada.get("/Post?sort=likes&q=post")
    assert {"First page", "Previous page"}.isdisjoint(page.links)
    second = ada.get(page.links["Next page"])
    third = ada.get(second.links["Next page"])
    assert "Next page" not in third.links
    back = ada.get(third.links["Previous page"])
    assert [name for name in back.links if name.startswith("post ")] == ["post 3", "post 4", "post 5"]
    assert ada.get(back.links["Next page"]).links == third.links
    first = ada.get(back.links["Previous page"])
    assert first.links == page.links
    # Documents deleted meanwhile do not shorten the first page.
    Post.find(Post.likes < 2).delete()
    again = ada.get(back.links["Previous page"])
    assert [name for name in again.links if name.startswith("post ")] == ["post 2", "post 3", "post 4"]


def test_a_list_is_searched_and_narrowed(ada: Visitor) -> None:
    tea = Post(title="Tea (green)", state="seen").save()
    Post(title="Bread").save()
    assert "Tea (green)" in ada.get("/Post?q=%28GREEN").links
    assert "Bread" not in ada.get("/Post?q=%28GREEN").links
    assert list(ada.get("/Post?f.state=0").links)[-1] == "Bread"
    assert "Tea (green)" in ada.get(f"/Post?q={tea.id}").links


def test_a_search_is_for_any_text_that_is_not_too_long(ada: Visitor) -> None:
    Post(title="Tea\0 (green)").save()
    Post(title="Tea").save()
    assert "green" in "".join(ada.get("/Post?q=%00").links)
    assert "Tea" not in ada.get("/Post?q=%00").links
    for path in ("/Post", "/Post/find"):
        assert "at most 1000 characters, got 1001" in ada.get(f"{path}?q={1001 * '.'}", 400).text


def test_a_list_names_what_does_not_fit_its_model(ada: Visitor) -> None:
    Post.collection().insert_one({"title": 3})
    Post(title="good").save()
    page = ada.get("/Post")
    assert "good" in page.links
    assert "expected str, got int at $.title" in page.text


def test_a_document_is_made_changed_and_deleted(ada: Visitor) -> None:
    page = ada.get("/Post/new")
    assert page.form["likes"] == "0"
    page = ada.send(page, title="Tea", body="one\r\ntwo")
    made = Post.find().one()
    assert (made.title, made.body, made.tags) == ("Tea", "one\ntwo", [])
    page = ada.send(page, title="Green tea", state="1")
    assert "is saved" in page.text
    assert Post.find().one().state == "seen"
    ada.send(ada.get(page.links["Delete"]))
    assert Post.find().count() == 0


def test_rows_and_embedded_documents_are_added_changed_and_taken_away(ada: Visitor) -> None:
    page = ada.get("/Post/new")
    page = ada.send(page, title="Tea", _add="comments")
    page = ada.send(page, _add="tags")
    page = ada.send(page, **{"comments.0.by": "Ada", "tags.0": "hot"})
    assert Post.find().one().comments == [Comment(by="Ada")]
    page = ada.send(page, _add="comments")
    page = ada.send(page, **{"comments.0.text": "fine", "comments.1.by": "Max"})
    assert Post.find().one().comments == [Comment(by="Ada", text="fine"), Comment(by="Max")]
    ada.send(page, **{"comments.0-": "1", "tags.0-": "1"})
    stored = Post.find().one()
    assert stored.comments == [Comment(by="Max")]
    assert stored.tags == []


def test_a_row_is_moved_with_what_no_form_carries(ada: Visitor) -> None:
    comments = [Comment(by="a", text="1"), Comment(by="b\r", text="2"), Comment(by="c", text="\0")]
    post = Post(title="Tea", comments=comments, tags=["x", "y"]).save()
    raw = Post.collection()
    raw.update_one({"_id": post.id}, {"$set": {"comments.2.unknown": 7}})
    stored = raw.find_one()["comments"]
    page = ada.get(f"/Post/document?id={post.id}")
    page = ada.send(page, _move="comments.2:up", title="Green tea")
    assert (page.form["title"], page.form["comments.1.by"]) == ("Green tea", "c")
    assert raw.find_one()["comments"] == stored
    page = ada.send(page, _move="comments.1:up")
    # A new row can be moved before others, and a moved row can be changed and removed.
    page = ada.send(page, _add="comments")
    page = ada.send(page, **{"comments.3.by": "d"}, _move="comments.3:up")
    page = ada.send(page, **{"comments.1.text": "one", "comments.3-": "1"})
    a, _, c = stored
    found = raw.find_one()["comments"]
    assert found == [c, {**a, "text": "one"}, {"by": "d", "text": ""}]
    assert ada.send(page, _move="tags.0:down").form["tags.0"] == "y"
    for wanted in ("tags.0:up", "tags.1:down", "tags.x:up", "tags.0:left", "title:up", "nothing.0:up"):
        ada.send(page, 400, _move=wanted)
    ada.send(page, 422, **{"tags.0^": "1"})
    assert raw.find_one()["tags"] == ["x", "y"]


def test_what_does_not_fit_is_told_at_its_field_and_nothing_is_stored(ada: Visitor) -> None:
    post = Post(title="Tea", comments=[Comment(by="Ada")]).save()
    page = ada.get(f"/Post/document?id={post.id}")
    refused = ada.send(page, 422, likes="-1", title="x" * 81, **{"comments.0.by": "Max"})
    assert refused.form["likes"] == "-1"
    assert refused.html.count('class="fault"') == 2
    refused = ada.send(page, 422, likes="many")
    assert "expected a whole number" in refused.text
    assert Post.find().one() == post
    assert Post.find().one().comments[0].by == "Ada"
    assert "expected a value" in ada.send(ada.get("/Post/new"), 422).text


def test_an_old_value_that_breaks_its_bounds_is_told_and_keeps_no_other_field_from_being_saved(
    ada: Visitor,
) -> None:
    post = Post(title="Tea").save()
    Post.collection().update_one({"_id": post.id}, {"$set": {"likes": -3}})
    page = ada.get(f"/Post/document?id={post.id}")
    assert "stays until this field is changed" in page.text
    # A browser would send no form with a value below this.
    assert 'min="' not in page.html
    page = ada.send(page, title="Green tea")
    stored = Post.collection().find_one()
    assert (stored["title"], stored["likes"]) == ("Green tea", -3)
    assert 'class="fault"' in ada.send(page, 422, likes="-2").html
    page = ada.send(page, likes="1")
    assert "stays until this field is changed" not in page.text
    assert 'min="0"' in page.html


def test_a_form_sent_back_as_it_is_changes_nothing(ada: Visitor) -> None:
    author = Author(name="Ada").save()
    post = Post(title="Tea", body="\n a\rb\tc ", author=author, tags=["", " x "]).save()
    Post.collection().update_one({"_id": post.id}, {"$set": {"unknown": 1.0}})
    before = Post.collection().find_one()
    ada.send(ada.get(f"/Post/document?id={post.id}"))
    assert Post.collection().find_one() == before


def test_another_writers_change_of_the_same_field_is_a_conflict_that_is_shown(ada: Visitor) -> None:
    post = Post(title="Tea", likes=1).save()
    page = ada.get(f"/Post/document?id={post.id}")
    Post.find().update({"$set": {"title": "Bread", "likes": 7}})
    page = ada.send(page, 409, title="Green tea")
    assert "stored meanwhile: Bread" in page.text
    assert (page.form["title"], page.form["likes"]) == ("Green tea", "7")
    assert Post.find().one().title == "Bread"
    ada.send(page)
    stored = Post.find().one()
    assert (stored.title, stored.likes) == ("Green tea", 7)


def test_another_writers_change_of_another_field_is_kept(ada: Visitor) -> None:
    post = Post(title="Tea", likes=1).save()
    page = ada.get(f"/Post/document?id={post.id}")
    Post.find().update({"$set": {"likes": 7}})
    ada.send(page, title="Green tea")
    stored = Post.find().one()
    assert (stored.title, stored.likes) == ("Green tea", 7)


def test_a_change_between_reading_and_saving_is_a_conflict(ada: Visitor, monkeypatch: Any) -> None:
    post = Post(title="Tea").save()
    page = ada.get(f"/Post/document?id={post.id}")
    saves = Post.asave

    async def late(self: Any, **options: Any) -> Any:
        await Post.find().aupdate({"$set": {"title": "Bread"}})
        return await saves(self, **options)

    monkeypatch.setattr(Post, "asave", late)
    page = ada.send(page, 409, title="Green tea")
    assert "stored meanwhile: Bread" in page.text
    assert Post.find().one().title == "Bread"


def test_a_duplicate_names_fields_that_are_shown_and_no_values(admin: Admin, ada: Visitor) -> None:
    admin._shown = Admin(
        Shown(Post, hidden=("body",)), sessions=admin.sessions, allowed=admin.allowed
    )._titles()
    Post.collection().create_index({"title": 1, "body": 1}, unique=True)
    Post(title="Tea", body="unseen").save()
    post = Post(title="Bread", body="unseen").save()
    page = ada.send(ada.get(f"/Post/document?id={post.id}"), 409, title="Tea")
    assert "another Post has the same Title, Others" in page.text
    assert "unseen" not in page.html


def test_a_form_refers_only_to_what_its_user_may_see(admin: Admin, stranger: Visitor) -> None:
    seen, unseen = Author(name="Ada").save(), Author(name="Mallory").save()
    post = Post(title="Tea", author=unseen).save()
    allowed = admin.allowed
    admin.allowed = lambda user, action, model, document: (
        action in ("change", "create") or allowed(user, action, model, document)
    )
    stranger.log_in("eve")
    page = stranger.get(f"/Post/document?id={post.id}")
    # Existing references may stay.
    page = stranger.send(page, title="Green tea")
    stranger.send(page, author=str(seen.id))
    page = stranger.get(f"/Post/document?id={post.id}")
    for id in (unseen.id, ObjectId()):
        said = "expected a Author that you may see"
        assert said in stranger.send(page, 422, author=str(id)).text
        assert said in stranger.send(stranger.get("/Post/new"), 422, title="Bread", author=str(id)).text
    stored = Post.find().one()
    assert (stored.title, stored.author and stored.author.id) == ("Green tea", seen.id)


def test_a_form_sets_no_secret_of_an_embedded_document(ada: Visitor) -> None:
    wallet = Wallet(name="w", pin=Pin()).save()
    page = ada.get(f"/Wallet/document?id={wallet.id}")
    ada.send(page, **{"pin.code": "guessed", "pin.name": "q"})
    pin = Wallet.find().one().pin
    assert pin is not None
    assert (pin.name, pin.code) == ("q", "unseen-code")


def test_a_deletion_takes_nothing_with_it_that_its_user_may_not_delete(admin: Admin, ada: Visitor) -> None:
    post = Post(title="Tea").save()
    picture = Picture(post=post).save()
    Thumbnail(picture=picture).save()
    question = ada.get(f"/Post/delete?id={post.id}")
    admin.allowed = lambda user, action, model, document: (action, model) != ("delete", Thumbnail)
    assert "Thumbnail that you may not delete would go with it" in ada.send(question, 403).text
    admin.allowed = lambda user, action, model, document: model is not Picture
    text = ada.get(f"/Post/delete?id={post.id}", 403).text
    assert "documents of another model that you may not delete" in text
    assert (Post.find().count(), Picture.find().count(), Thumbnail.find().count()) == (1, 1, 1)
    admin.allowed = lambda *asked: True
    ada.send(question)
    assert (Post.find().count(), Picture.find().count(), Thumbnail.find().count()) == (0, 0, 0)


def test_a_denied_deletion_does_not_name_a_model_whose_documents_the_user_may_not_list(
    admin: Admin, ada: Visitor
) -> None:
    author = Author(name="Ada").save()
    Post(title="Tea", author=author).save()
    admin.allowed = lambda user, action, model, document: model is not Post
    text = ada.send(ada.get(f"/Author/delete?id={author.id}"), 409).text
    assert "other documents refer to it" in text
    assert "Post" not in text


def test_a_deletion_that_a_rule_denies_is_told(ada: Visitor) -> None:
    author = Author(name="Ada").save()
    Post(title="Tea", author=author).save()
    page = ada.send(ada.get(f"/Author/delete?id={author.id}"), 409)
    assert "Post" in page.text
    assert Author.find().count() == 1


def test_a_reference_is_a_link_by_name_and_targets_are_found(ada: Visitor) -> None:
    author = Author(name="Ada Berg").save()
    post = Post(title="Tea", author=author).save()
    assert ada.get("/Post").links["Ada Berg"] == f"/admin/Author/document?id={author.id}"
    found = ada.client.get("/admin/Author/find?q=berg").json()
    assert found == [{"id": str(author.id), "name": "Ada Berg"}]
    page = ada.get(f"/Post/document?id={post.id}")
    assert "expected 24 hexadecimal digits" in ada.send(page, 422, author="nobody").text
    ada.send(page, author="")
    assert Post.find().one().author is None


def test_a_file_is_stored_and_fetched_and_never_shown(ada: Visitor) -> None:
    data = b"<script>alert(1)</script>\r\n--x\0"
    page = ada.send(ada.get("/Post/new"), title="Tea", files={"photo!": ("a.html", data, "text/html")})
    answer = ada.client.get(page.links["Download Photo"])
    assert answer.content == data
    assert answer.headers["content-disposition"] == "attachment"
    assert answer.headers["content-type"] == "application/octet-stream"
    before = Post.find().one().photo
    ada.send(page, title="Green tea", files={"other!": ("b", b"")})
    assert Post.find().one().photo == before
    assert isinstance(before, File)


def files_in(db: Any) -> int:
    """Return how many files are stored."""
    return int(db.client[db.name]["fs.files"].count_documents({}))


def test_a_file_of_a_form_that_is_refused_is_not_kept(db: Any, ada: Visitor) -> None:
    files = {"photo!": ("a", b"x" * 300_000, "text/plain")}
    page = ada.send(ada.get("/Post/new"), 422, title="Tea", likes="-1", files=files)
    assert "choose it again" in page.text
    assert page.form["photo"] == ""
    ada.send(ada.get("/Post/new"), 422, title="Tea", author="0" * 24, files=files)
    assert (files_in(db), Post.find().count()) == (0, 0)
    page = ada.send(page, likes="1", files=files)
    before = Post.find().one().photo
    ada.send(page, 422, likes="many", files=files)
    Post.find().update({"$set": {"title": "Bread"}})
    refused = ada.send(page, 409, title="Green tea", files=files)
    assert refused.form["photo"] == page.form["photo"]
    assert (files_in(db), Post.find().one().photo) == (1, before)


def test_a_file_that_another_one_replaces_is_deleted_after_the_save(db: Any, ada: Visitor) -> None:
    page = ada.send(ada.get("/Post/new"), title="Tea", files={"photo!": ("a", b"a", "text/plain")})
    old = Post.find().one().photo
    page = ada.send(page, title="Green tea", files={"photo!": ("b", b"b", "text/plain")})
    new = Post.find().one().photo
    assert isinstance(new, File)
    assert (new != old, new.read(), files_in(db)) == (True, b"b", 1)
    # The program may use its file in other places too.
    Post.find().update({"$set": {"photo": (mine := File.put(b"mine", "c")).id}})
    page = ada.get(f"/Post/document?id={Post.find().one().id}")
    ada.send(page, files={"photo!": ("d", b"d", "text/plain")})
    assert (mine.read(), files_in(db)) == (b"mine", 3)


def test_the_files_of_a_deleted_document_are_deleted_with_it(db: Any, ada: Visitor) -> None:
    page = ada.send(ada.get("/Post/new"), title="Tea", files={"photo!": ("a", b"a", "text/plain")})
    ada.send(ada.get("/Post/new"), title="Bread", files={"photo!": ("b", b"b", "text/plain")})
    ada.send(ada.get(page.links["Delete"]))
    (left,) = Post.find().all()
    assert left.photo is not None
    assert (left.title, left.photo.read(), files_in(db)) == ("Bread", b"b", 1)
    # The program may use its file in other places too.
    left.photo = File.put(b"mine", "c")
    left.save()
    ada.send(ada.get(f"/Post/delete?id={left.id}"))
    assert (Post.find().count(), left.photo.read()) == (0, b"mine")


def test_the_files_of_documents_that_a_rule_deletes_are_deleted_with_them(db: Any, ada: Visitor) -> None:
    page = ada.send(ada.get("/Post/new"), title="Tea", files={"photo!": ("a", b"a", "text/plain")})
    post = Post.find().one()
    ada.send(ada.get("/Picture/new"), post=str(post.id), files={"image!": ("b", b"b", "text/plain")})
    picture = Picture.find().one()
    # The program may use its file in other places too, and another post keeps its own.
    mine = File.put(b"mine", "c")
    ours = File.put(b"ours", "d", metadata={"mangonel.admin": "Thumbnail"})
    Thumbnail(picture=picture, images=[mine, ours]).save()
    other = Post(title="Bread").save()
    kept = File.put(b"kept", "e", metadata={"mangonel.admin": "Picture"})
    Picture(post=other, image=kept).save()
    assert files_in(db) == 5
    ada.send(ada.get(page.links["Delete"]))
    assert (Picture.find().count(), Thumbnail.find().count()) == (1, 0)
    assert (mine.read(), kept.read(), files_in(db)) == (b"mine", b"kept", 2)


def test_a_denied_deletion_keeps_the_files_of_documents_that_a_rule_had_deleted(
    db: Any, ada: Visitor, monkeypatch: Any
) -> None:
    page = ada.send(ada.get("/Post/new"), title="Tea", files={"photo!": ("a", b"a", "text/plain")})
    kept = File.put(b"kept", "e", metadata={"mangonel.admin": "Picture"})
    Picture(post=Post.find().one(), image=kept).save()
    delete = Post.adelete

    async def undone(self: Any, **options: Any) -> Any:
        await delete(self, **options)
        raise DeleteDenied("it is needed")

    monkeypatch.setattr(Post, "adelete", undone)
    assert "it is needed" in ada.send(ada.get(page.links["Delete"]), 409).text
    assert (kept.read(), files_in(db)) == (b"kept", 2)


def test_the_files_of_a_document_that_was_not_deleted_stay(db: Any, ada: Visitor, monkeypatch: Any) -> None:
    page = ada.send(ada.get("/Post/new"), title="Tea", files={"photo!": ("a", b"a", "text/plain")})

    async def refused(self: Any, **options: Any) -> Any:
        raise DeleteDenied("it is needed")

    async def broken(self: Any, **options: Any) -> Any:
        raise NetworkTimeout("timed out")

    with monkeypatch.context() as patch:
        patch.setattr(Post, "adelete", refused)
        assert "it is needed" in ada.send(ada.get(page.links["Delete"]), 409).text
        patch.setattr(Post, "adelete", broken)
        with pytest.raises(NetworkTimeout):
            ada.send(ada.get(page.links["Delete"]))
    assert (Post.find().count(), files_in(db)) == (1, 1)


def test_a_file_that_cannot_be_deleted_keeps_no_document(
    db: Any, ada: Visitor, monkeypatch: Any, caplog: Any
) -> None:
    page = ada.send(ada.get("/Post/new"), title="Tea", files={"photo!": ("a", b"a", "text/plain")})

    async def broken(self: Any) -> None:
        raise NetworkTimeout("timed out")

    monkeypatch.setattr(File, "adelete", broken)
    assert "Tea is deleted" in ada.send(ada.get(page.links["Delete"])).text
    assert (Post.find().count(), files_in(db)) == (0, 1)
    assert "was not deleted: timed out" in caplog.text


def test_a_deletion_beside_an_upload_leaves_no_file_behind(db: Any, ada: Visitor, monkeypatch: Any) -> None:
    page = ada.send(ada.get("/Post/new"), title="Tea", files={"photo!": ("a", b"a", "text/plain")})
    question, delete = ada.get(page.links["Delete"]), Post.adelete

    async def delayed(self: Any, **options: Any) -> Any:
        # Another writer's form is stored between the check of the document and its deletion.
        monkeypatch.setattr(Post, "adelete", delete)
        replaced = File.put(b"b", "b", metadata={"mangonel.admin": "Post"})
        await Post.find(Post.id == self.id).aupdate({"$set": {"photo": replaced.id}})
        self.photo.delete()
        return await delete(self, **options)

    monkeypatch.setattr(Post, "adelete", delayed)
    refused = ada.send(question, 409)
    assert "Another writer changed this document" in refused.text
    assert (Post.find().one().photo.read(), files_in(db)) == (b"b", 1)
    ada.send(refused)
    assert (Post.find().count(), files_in(db)) == (0, 0)


def test_files_that_a_history_names_stay(db: Any, ada: Visitor) -> None:
    page = ada.send(ada.get("/Scan/new"), title="Tea", files={"image!": ("a", b"a", "text/plain")})
    ada.send(ada.get(page.links["Delete"]))
    assert (Scan.find().count(), files_in(db)) == (0, 1)


def test_the_fields_that_may_name_files_are_found_at_any_depth() -> None:
    assert file_fields(Album) == ["cover", "pages", "by_name"]
    assert file_fields(Author) == []


def test_a_form_names_no_file_but_its_documents_own(db: Any, ada: Visitor) -> None:
    other = File.put(b"of another", "x")
    page = ada.get("/Post/new")
    text = json.dumps({"$oid": str(other.id)})
    assert "a file of this document" in ada.send(page, 422, title="Tea", photo=text).text
    page = ada.send(page, title="Tea", files={"photo!": ("a", b"a", "text/plain")})
    mine = Post.find().one().photo
    assert "a file of this document" in ada.send(page, 422, photo=text).text
    assert Post.find().one().photo == mine
    assert other.read() == b"of another"


def test_a_file_is_kept_if_it_is_unknown_whether_its_document_was_saved(
    db: Any, ada: Visitor, monkeypatch: Any
) -> None:
    inserts = Post.ainsert

    async def broken(self: Any, **options: Any) -> Any:
        await inserts(self, **options)
        raise NetworkTimeout("timed out")

    monkeypatch.setattr(Post, "ainsert", broken)
    with pytest.raises(NetworkTimeout):
        ada.send(ada.get("/Post/new"), title="Tea", files={"photo!": ("a", b"x", "text/plain")})
    photo = Post.find().one().photo
    assert photo is not None
    assert photo.read() == b"x"


def test_history_names_the_user_of_the_admin(ada: Visitor) -> None:
    page = ada.send(ada.get("/Contract/new"), title="Tea")
    page = ada.send(page, title="Bread")
    with acting_as("max"):
        contract = Contract.find().one()
        contract.title = "Water"
        contract.save()
    assert [one.by for one in contract.history()] == ["ada", "ada", "max"]
    text = ada.get(page.links["History"]).text
    assert "Tea → Bread" in text.replace('"', "")
    assert "max" in text


def test_a_secret_is_never_sent_and_kept_if_it_is_left_empty(ada: Visitor) -> None:
    page = ada.send(ada.get("/Vault/new"), name="v", token="s3cr3t")
    assert "s3cr3t" not in page.html + ada.get("/Vault").html
    assert "unseen" not in page.html
    ada.send(page, name="w")
    stored = Vault.find().one()
    assert (stored.name, stored.token.reveal(), stored.hidden) == ("w", "s3cr3t", "unseen")


def test_no_page_shows_a_secret_of_an_embedded_document_or_of_a_history(ada: Visitor) -> None:
    def pin(number: int) -> Pin:
        return Pin(token=Secret(f"unseen-{number}"))

    wallet = Wallet(
        name="w", token=Secret("unseen-0"), pin=pin(1), pins=[pin(2)], by_name={"a": pin(3)}
    ).save()
    wallet.token, wallet.pin = Secret("unseen-4"), pin(5)
    wallet.pins.append(pin(6))
    wallet.save()
    cellar = Cellar(name="c").save()
    for path in (
        f"/Wallet/document?id={wallet.id}",
        f"/Wallet/history?id={wallet.id}",
        "/Wallet",
        f"/Place/document?id={cellar.id}",
    ):
        page = ada.get(path)
        assert "unseen" not in page.html
    history = ada.get(f"/Wallet/history?id={wallet.id}").text
    assert "•••••• → " in history.replace('"', "")


def test_a_user_who_may_not_change_a_document_sees_no_secret_of_it(stranger: Visitor) -> None:
    wallet = Wallet(name="w", pin=Pin(token=Secret("unseen-1")), pins=[Pin(token=Secret("unseen-2"))]).save()
    stranger.log_in("eve")
    page = stranger.get(f"/Wallet/document?id={wallet.id}")
    assert "unseen" not in page.html
    assert '"name": "p", "t": "••••••"' in page.text


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("number", str(2**63), "at most 64 bits"),
        ("anything", str(2**70), "8-byte ints"),
        ("at", '{"type": "Point", "coordinates": [500, 0]}', "error 16755"),
    ],
)
def test_what_no_document_can_have_is_told_and_nothing_is_stored(
    name: str, text: str, said: str, ada: Visitor
) -> None:
    Place.sync_indexes()
    page = ada.send(ada.get("/Place/new"), 422, **{name: text})
    assert said in page.text
    place = Place(name="p").save()
    page = ada.get(f"/Place/document?id={place.id}")
    assert said in ada.send(page, 422 if name == "number" else 409, **{name: text}).text
    assert [one.to_dict() for one in Place.find()] == [place.to_dict()]


def test_a_user_does_only_what_is_allowed(stranger: Visitor) -> None:
    draft, post = Post(title="draft").save(), Post(title="Tea").save()
    stranger.log_in("eve")
    page = stranger.get("/Post")
    assert "Tea" in page.links
    assert {"draft", "New"}.isdisjoint(page.links)
    assert "Vault" not in stranger.get("/").links
    stranger.get("/Vault", 403)
    stranger.get("/Vault/find", 403)
    stranger.get("/Post/new", 403)
    stranger.get(f"/Post/document?id={draft.id}", 404)
    stranger.get(f"/Post/delete?id={post.id}", 403)
    shown = stranger.get(f"/Post/document?id={post.id}")
    assert "title" not in shown.form
    token = (
        stranger.get("/-/login").form.get("_csrf")
        or shown.html.split('name="_csrf" value="')[1].split('"')[0]
    )
    for path in (f"document?id={post.id}", "new", f"delete?id={post.id}"):
        answer = stranger.client.post(f"/admin/Post/{path}", data={"_csrf": token, "title": "changed"})
        assert answer.status_code == 403, path
    assert {stored.title for stored in Post.find()} == {"draft", "Tea"}


def test_a_filter_narrows_lists_searches_pages_and_references_on_the_server(
    admin: Admin, stranger: Visitor
) -> None:
    def allowed(user: str, action: str, model: Any, document: Any) -> Any:
        if action == "list" and user == "eve":
            return {Post: Post.likes >= 5, Author: {"name": {"$ne": "Mallory"}}, Vault: {}}.get(model, False)
        return True

    admin.allowed = allowed
    mallory = Author(name="Mallory").save()
    Post.insert_many([Post(title=f"post {n}", likes=n, author=mallory if n == 7 else None) for n in range(9)])
    stranger.log_in("eve")
    page = stranger.get("/Post?sort=likes")
    # A full page, although most documents before it are hidden from her.
    assert [name for name in page.links if name.startswith("post ")] == ["post 5", "post 6", "post 7"]
    assert "Mallory" not in page.html
    assert f"Author {mallory.id}" in page.links
    assert [one["name"] for one in stranger.client.get("/admin/Post/find?q=post").json()] == [
        *("post 5", "post 6", "post 7", "post 8")
    ]
    hidden, shown = Post.find(Post.likes == 4).one(), Post.find(Post.likes == 5).one()
    for name in ("document", "delete", "history", "file"):
        stranger.get(f"/Post/{name}?id={hidden.id}", 404)
    assert stranger.get(f"/Post/document?id={shown.id}").form["title"] == "post 5"
    answer = stranger.client.post(
        f"/admin/Post/document?id={hidden.id}",
        data={**stranger.get("/Post/new").form, "title": "changed"},
    )
    assert answer.status_code == 404
    assert Post.find(Post.title == "changed").count() == 0
    stranger.get("/Contract", 403)
    assert {"Post", "Author", "Vault"} <= stranger.get("/").links.keys()


def test_a_filter_is_an_answer_about_lists_only(admin: Admin, ada: Visitor) -> None:
    post = Post(title="Tea").save()
    admin.allowed = lambda user, action, model, document: {"title": "Tea"}
    with pytest.raises(TypeError, match='expected True or False from allowed= for "view", got the filter'):
        ada.get(f"/Post/document?id={post.id}")


def test_a_list_does_not_name_a_referenced_document_that_the_user_may_not_view(ada: Visitor) -> None:
    seen, unseen = Author(name="Ada").save(), Author(name="Mallory").save()
    Post(title="one", author=seen).save()
    Post(title="two", author=unseen).save()
    assert {"Ada", "Mallory"} <= ada.get("/Post").links.keys()
    ada.client.cookies.clear()
    ada.log_in("eve")
    page = ada.get("/Post")
    assert {"Ada", f"Author {unseen.id}"} <= page.links.keys()
    assert "Mallory" not in page.html


def test_fields_that_are_hidden_or_fixed_cannot_be_sent(db: Any, admin: Admin, ada: Visitor) -> None:
    shown = Shown(Post, hidden=("body",), fixed=("likes",))
    admin._shown = Admin(shown, sessions=admin.sessions, allowed=admin.allowed)._titles()
    post = Post(title="Tea", body="b", likes=1).save()
    page = ada.get(f"/Post/document?id={post.id}")
    ada.send(page, body="sent", likes="9", title="Green tea", **{"_was.body": "x", "_was.likes": "x"})
    stored = Post.find().one()
    assert (stored.title, stored.body, stored.likes) == ("Green tea", "b", 1)


@pytest.mark.parametrize(
    "path", ["/Nothing", "/Post/nothing", "/Post/document?id=1", "/Post/a/b", "/Post/history"]
)
def test_what_is_not_there_is_not_found(ada: Visitor, path: str) -> None:
    ada.get(path, 404)


@pytest.mark.parametrize("number", ["9" * 5000, "²"])
def test_a_form_whose_numbers_are_none_is_read_or_refused(number: str, ada: Visitor) -> None:
    post = Post(title="Tea", tags=["a", "b"]).save()
    page = ada.get(f"/Post/document?id={post.id}")
    for wrong in ({"_move": f"tags.{number}:up"}, {"_add": f"comments.{number}"}):
        assert "Exceeds" not in ada.send(page, 400, **wrong).text
    assert "expected one of the options" in ada.send(page, 422, state=number).text
    ada.send(ada.get(page.action), **{"tags#": number, "tags.0^": number})
    assert Post.find().one().tags == ["a", "b"]
    ada.send(ada.get(page.action), **{"tags.1^": number})
    assert Post.find().one().tags == ["a", "b"]


def test_wrong_settings_are_refused() -> None:
    sessions = WebSessions[Any]("memory:")
    with pytest.raises(TypeError, match="no field 'nme'; it has id, name"):
        Shown(Author, columns=("nme",))
    with pytest.raises(
        TypeError, match=r"are shown as search=, got 'body', whose value the result would tell"
    ):
        Shown(Post, search=("body",), hidden=("body",))
    with pytest.raises(TypeError, match="are shown as order=, got 'hidden'"):
        Shown(Vault, order="-hidden")
    with pytest.raises(TypeError, match="are shown as filters=, got 'token'"):
        Shown(Vault, filters=("token",))
    with pytest.raises(TypeError, match="expected a document class"):
        Admin(Comment, sessions=sessions, allowed=lambda *asked: True)
    with pytest.raises(TypeError, match="two named Post"):
        Admin(Post, Shown(Post), sessions=sessions, allowed=lambda *asked: True)
    with pytest.raises(TypeError, match="expected allowed= to be a function"):
        Admin(Post, sessions=sessions, allowed=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="or the address of a login, got ''"):
        Admin(Post, sessions=sessions, allowed=lambda *asked: True, login="")
