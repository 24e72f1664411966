"""The demo in headless Chromium, as a person sees it.

No test here asserts a speed; the figures are printed (`pytest -s`).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from site_process import PASSWORD, Site, customer

from mangonel import MongoClient, server
from mangonel.errors import PyMongoError
from mangonel.write_concern import WriteConcern
from tools.browser import SIZES, THEMES, TIMEOUT_MS, faults_in

# Each page, and its content once its scripts have run.
PAGES = {
    "/login": "form",
    "/": "#customer-rows > tr",
    "/posts": "#results > li",
    "/files": "#files > tr, #none:not([hidden])",
    "/status": "#commands-plot .median",
    "/account": ".sessions > li",
}

# Records when each customer's row is added to the table, and how often.
OBSERVE = """() => {
  const rows = document.getElementById("customer-rows");
  const note = (node) => window.seen.push([node.dataset.id, performance.timeOrigin + performance.now()]);
  window.seen = [];
  new MutationObserver((changes) => {
    for (const change of changes) for (const node of change.addedNodes) note(node);
  }).observe(rows, { childList: true });
}"""


HIGHEST = "Number(document.getElementById('highest').textContent.replace(',', ''))"

# Tables whose last columns are visible only after scrolling sideways.
CUT = """() => [...document.querySelectorAll(".scroll")].filter((table) => table.scrollWidth > table.clientWidth)
  .map((table) => table.getAttribute("aria-labelledby"))"""


class Person:
    """A browser context, and the errors in it."""

    def __init__(self, chromium: Any, site: Site, **settings: Any) -> None:
        self.context = chromium.new_context(base_url=site.url, **settings)
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def log_in(self, user: str = "ada") -> Any:
        """Fill in the form, and return the live page."""
        self.page.goto("/login")
        self.page.get_by_label("Name").fill(user)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url("**/")
        self.page.locator('#state[data-state="live"]').wait_for()
        return self.page


@pytest.fixture
def person(chromium: Any, site: Site) -> Iterator[Any]:
    """Return a function that opens the site for a new visitor."""
    people: list[Person] = []

    def come(**settings: Any) -> Person:
        people.append(Person(chromium, site, **settings))
        return people[-1]

    yield come
    for one in people:
        one.context.close()


def test_a_customer_appears_after_the_insert_without_being_asked_for(person: Any, shop: Any) -> None:
    page = person().log_in()
    page.evaluate(OBSERVE)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    acknowledged: dict[str, float] = {}
    for number in range(20):
        added = shop.customers.insert_one(customer(f"soon {number}"))
        acknowledged[str(added.inserted_id)] = time.time() * 1000
        page.wait_for_function("count => window.seen.length >= count", arg=number + 1)
    shown = dict(page.evaluate("window.seen"))
    # Shown before the acknowledgement arrived here: no delay at all.
    delays = sorted(max(0.0, shown[id] - at) for id, at in acknowledged.items())
    print(f"insert to row: median {statistics.median(delays):.1f} ms, {delays[0]:.1f} to {delays[-1]:.1f}")
    assert asked == []


def test_rows_change_and_go_as_their_documents_do(person: Any, shop: Any) -> None:
    one = person()
    page = one.log_in()
    leaver = customer("A person who leaves")
    order = {"customer": "Ann", "item": "Kite", "cents": 990, "state": "new", "placed": leaver["joined"]}
    shop.customers.insert_one(leaver)
    shop.orders.insert_one(order)
    line = page.locator(f'#order-rows > tr[data-id="{order["_id"]}"]')
    line.get_by_text("new", exact=True).wait_for()
    for state in ("paid", "shipped"):
        shop.orders.update_one({"_id": order["_id"]}, {"$set": {"state": state}})
        line.get_by_text(state, exact=True).wait_for()
    assert line.locator("td").all_inner_texts() == ["Kite", "Ann", "shipped", "€9.90"]
    total = page.locator("#customer-total").inner_text()
    shop.customers.delete_one({"_id": leaver["_id"]})
    page.locator(f'#customer-rows > tr[data-id="{leaver["_id"]}"]').wait_for(state="detached")
    page.wait_for_function(
        "total => document.getElementById('customer-total').textContent !== total", arg=total
    )
    left = page.locator("#customer-total").inner_text()
    assert int(left.replace(",", "")) == shop.customers.count_documents({})
    page.reload()
    line.get_by_text("shipped", exact=True).wait_for()
    assert one.problems == []


class Shopping(threading.Thread):
    """Writes customers one at a time, never far ahead of the page.

    Attributes:
        acknowledged: ids of those whose write was acknowledged by a majority.
        doubtful: ids of those whose write failed, but may be stored.
        shown: set by the test: how many rows the page has had.
    """

    AHEAD = 60  # below the number of rows of the table, so that every row has to appear

    def __init__(self, uri: str, database: str) -> None:
        super().__init__(daemon=True)
        self._uri = uri
        self._database = database
        self._has_closed = threading.Event()
        self.acknowledged: list[str] = []
        self.doubtful: list[str] = []
        self.shown = 0

    def run(self) -> None:
        """Write until told to close."""
        with MongoClient[Any](self._uri) as client:
            customers = client[self._database].get_collection(
                "customers", write_concern=WriteConcern("majority")
            )
            while not self._has_closed.wait(0.05):
                if len(self.acknowledged) - self.shown > self.AHEAD:
                    continue
                new = customer(f"number {len(self.acknowledged)}")
                try:
                    customers.insert_one(new)
                except PyMongoError:
                    self.doubtful.append(str(new["_id"]))
                else:
                    self.acknowledged.append(str(new["_id"]))

    def close(self) -> None:
        """Write no more, and return when the last write has ended."""
        self._has_closed.set()
        self.join(60)


def test_no_customer_is_lost_or_doubled_when_the_primary_and_the_web_process_are_killed(
    chromium: Any,
) -> None:
    with server.start(3) as deployment, Site(deployment.uri, "demo") as site:
        ann = Person(chromium, site)
        page = ann.log_in()
        page.evaluate(OBSERVE)
        shopping = Shopping(deployment.uri, "demo")
        shopping.start()

        def wait_for(more: int) -> None:
            """Continue the shop until the page has received this many more rows."""
            wanted = shopping.shown + more
            deadline = time.monotonic() + TIMEOUT_MS / 1000
            while shopping.shown < wanted:
                assert time.monotonic() < deadline, f"{shopping.shown} of {wanted} rows"
                page.wait_for_timeout(100)
                shopping.shown = page.evaluate("window.seen.length")

        wait_for(20)
        killed = deployment.wait_for_primary()
        killed.kill()
        wait_for(40)
        site.kill()
        page.locator('#state[data-state="reconnecting"]').wait_for()
        site.start()
        wait_for(40)
        killed.restart()
        wait_for(20)
        shopping.close()
        total = shopping.acknowledged[-1]
        page.wait_for_function("id => window.seen.some(([seen]) => seen === id)", arg=total)

        seen = Counter(id for id, _ in page.evaluate("window.seen"))
        lost = [id for id in shopping.acknowledged if id not in seen]
        print(
            f"{len(shopping.acknowledged)} acknowledged, {len(shopping.doubtful)} doubtful, {len(seen)} shown"
        )
        assert not lost
        assert [id for id, count in seen.items() if count > 1] == []
        assert set(seen) <= {*shopping.acknowledged, *shopping.doubtful}
        assert page.locator("#customer-total").inner_text() == str(len(seen))
        ann.context.close()


def test_a_visitor_kills_the_primary_and_nothing_is_missed_or_doubled(chromium: Any) -> None:
    command = [sys.executable, "-m", "mangonel", "demo", "--port", "0", "--rate", "20"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert demo.stdout is not None
        page = chromium.new_page(base_url=demo.stdout.readline().strip())
        page.set_default_timeout(TIMEOUT_MS)
        page.goto("/login")
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.locator('#state[data-state="live"]').wait_for()
        page.locator("#speed").fill("100")
        page.get_by_role("button", name="Kill the primary").click()
        page.get_by_text("electing…").wait_for()
        page.get_by_text("reconnected after").wait_for()
        # Fresh rows fade in; without them the page comes to rest, with a member less.
        page.locator("#speed").fill("0")
        problems = []
        for size in SIZES:
            problems += faults_in(page, "demo-killed", [(size, theme) for theme in THEMES])
            problems += page.evaluate(CUT)
        assert problems == []
        page.locator("#speed").fill("100")
        page.get_by_role("button", name="Start it again").click()
        page.get_by_text("runs again.").wait_for()
        before = page.locator("#customer-total").inner_text()
        page.wait_for_function(
            "total => document.getElementById('customer-total').textContent !== total", arg=before
        )
        assert [page.locator(name).inner_text() for name in ("#missed", "#doubled")] == ["0", "0"]
        page.context.close()
    finally:
        demo.terminate()
        demo.communicate(timeout=60)


def test_a_file_is_stored_with_progress_and_comes_back_whole(person: Any, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "photo.jpg").write_bytes(content)
    page = person().log_in()
    page.goto("/files")
    page.get_by_label("File, of").set_input_files(tmp_path / "photo.jpg")
    page.get_by_role("button", name="Store").click()
    page.get_by_text("photo.jpg is stored.").wait_for()
    assert page.locator("#bar").evaluate("bar => bar.value") == 1
    with page.expect_download() as download:
        page.get_by_role("link", name="photo.jpg").click()
    assert Path(download.value.path()).read_bytes() == content
    assert download.value.suggested_filename == "photo.jpg"
    page.get_by_role("button", name="Remove photo.jpg").click()
    page.get_by_role("link", name="photo.jpg").wait_for(state="detached")


def test_logging_out_everywhere_sends_another_browser_to_the_login(person: Any) -> None:
    here, elsewhere = person(), person()
    page = here.log_in("linus")
    other = elsewhere.log_in("linus")
    page.goto("/account")
    page.get_by_role("button", name="Log out everywhere").click()
    page.get_by_text("You are logged out everywhere.").wait_for()
    # The page that listens may be redirected to the login just now, so repeat until no other navigation intervenes.
    other.wait_for_function("() => location.pathname === '/login'")
    other.goto("/")
    assert "/login" in other.url


def test_posts_are_found_by_words_and_on_the_map(person: Any) -> None:
    page = person().log_in()
    page.goto("/posts")
    page.get_by_text("1,000 posts found.").wait_for()
    page.get_by_role("button", name="More").click()
    page.locator("#results > li:nth-child(40)").wait_for()
    page.get_by_label("Words").fill("bicycle")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("1,000 posts found.").wait_for(state="detached")
    everywhere = int(page.locator("#found").inner_text().split()[0])
    page.get_by_label("Around").select_option("Oslo")
    page.wait_for_function(
        "count => parseInt(document.getElementById('found').textContent) < count", arg=everywhere
    )
    titles = page.locator("#results h3").all_inner_texts()
    assert titles
    assert all(title.endswith("Oslo") for title in titles)
    page.locator("#map").click(position={"x": 40, "y": 40})
    page.get_by_text("0 posts found.").wait_for()


# Pairs of names that overlap, and names outside the map.
CROWDED = """() => {
  const names = [...document.querySelectorAll("#map .city")].map((each) => [each.textContent, each.getBBox()]);
  const box = document.getElementById("map").viewBox.baseVal;
  const found = names.filter(([, at]) => at.x < 0 || at.x + at.width > box.width).map(([name]) => name);
  for (const [name, one] of names) for (const [other, two] of names) {
    const across = Math.min(one.x + one.width, two.x + two.width) - Math.max(one.x, two.x);
    const down = Math.min(one.y + one.height, two.y + two.height) - Math.max(one.y, two.y);
    if (name < other && across > 0 && down > 4) found.push(`${name} and ${other}`);
  }
  return found;
}"""


def test_the_names_on_the_map_are_whole_and_apart_on_a_phone(person: Any) -> None:
    page = person(viewport=dict(zip(("width", "height"), SIZES["phone"], strict=True))).log_in()
    page.goto("/posts")
    page.locator("#map .city").first.wait_for()
    assert page.evaluate(CROWDED) == []


def test_a_thousand_events_a_second_leave_a_bounded_page_that_answers(person: Any, shop: Any) -> None:
    page = person().log_in()
    total = shop.customers.count_documents({})
    for _ in range(30):
        shop.customers.insert_many([customer("many") for _ in range(100)], ordered=False)
    page.wait_for_function(
        "total => parseInt(document.getElementById('customer-total').textContent.replaceAll(',', '')) === total",
        arg=total + 3000,
    )
    assert page.locator("#customer-rows > tr").count() == 100


def test_the_chart_begins_full_and_has_a_scale(person: Any, shop: Any) -> None:
    shop.customers.insert_many([customer("charted") for _ in range(400)])
    # The site has seen them before the page loads.
    person().log_in().wait_for_function(
        "() => document.querySelectorAll('#customer-rows > tr').length === 100"
    )
    one = person()
    page = one.log_in()
    # More than the smallest maximum of the scale. The number per second depends on the machine.
    page.wait_for_function(f"() => {HIGHEST} > 10")
    # The page draws both at once.
    highest, labels = page.evaluate(
        f"() => [{HIGHEST}, [...document.querySelectorAll('#chart text')].map((text) => text.textContent)]"
    )
    assert labels[0] == "events/s"
    assert labels[-3:] == ["60 s ago", "30 s ago", "now"]
    ends = [float(label.replace("K", "e3")) for label in labels[1:4]]
    assert ends[0] == 0
    assert ends[1] * 2 == ends[2] >= highest > 10
    page.wait_for_function(
        """() => {
            const chart = document.getElementById("chart");
            const tallest = Math.max(...[...chart.querySelectorAll(".bar")].map((bar) => bar.getBBox().height));
            return 0 < tallest && tallest <= chart.clientHeight;
        }"""
    )
    assert one.problems == []


def test_the_status_is_plots_with_units_that_begin_full(person: Any) -> None:
    points = "document.querySelector('#trip-plot .curve')?.getAttribute('d').match(/[ML]/g).length"
    units = {
        "events-plot": "events/s",
        "traffic-plot": "per s",
        "trip-plot": "ms",
        "pool-plot": "connections",
    }
    one = person()
    page = one.log_in()
    page.goto("/status")
    # As functions: the page's policy forbids evaluating texts.
    page.wait_for_function(f"() => {points} >= 3")
    page.locator("#commands-plot .median").first.wait_for()
    for plot, unit in units.items():
        assert page.locator(f"#{plot} text").first.text_content() == unit
        assert unit in page.locator(f"#{plot}-legend").inner_text()
    before = page.evaluate(points)
    page.reload()
    # The first report has the process's earlier changes, so nothing is drawn before that.
    assert page.wait_for_function(f"() => {points}").json_value() >= before
    assert one.problems == []


def test_every_page_is_accessible_and_quiet(person: Any, shop: Any) -> None:
    shop.customers.insert_one(customer("A person with quite a long name, and a Title"))
    one = person()
    problems: list[str] = []
    for path, content in PAGES.items():
        if path == "/":
            one.log_in()
        one.page.goto(path)
        one.page.locator(content).first.wait_for()
        problems += faults_in(one.page, f"demo-{path.strip('/') or 'live'}")
    assert problems == []
    assert one.problems == []


def test_the_choice_of_light_or_dark_is_kept(person: Any) -> None:
    page = person(color_scheme="light").log_in()
    page.get_by_role("button", name="Change between light and dark").click()
    page.goto("/files")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 23)"
