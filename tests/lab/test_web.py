"""The experiment `web`: every site gives the same page, and a wrong page is refused."""

from __future__ import annotations

import functools
import time

import pytest

from mangonel import MongoClient
from mangonel.lab import registry
from mangonel.lab.contender import Target
from mangonel.lab.contenders.drivers import DATABASE, ORIGINAL, PREFIX
from mangonel.lab.experiment import Size
from mangonel.lab.experiments import web
from mangonel.lab.experiments.web import PageTask, ensure_posts
from mangonel.lab.fixtures import DATASETS
from mangonel.lab.pages.stacks import ORIGINALS, STACKS
from mangonel.lab.site_process import end
from mangonel.lab.webload import generate

pytest.importorskip("pymongo", reason="the peers of the lab are not installed")
pytest.importorskip("tornado", reason="the sites of the lab are not installed")

SIZE = Size(parameters={"posts": 200, "requests": 40, "seconds": 1, "original": 40})
PAGES = {part.id: part for part in web.EXPERIMENT.parts(SIZE)}
NAMES = [name.removeprefix(PREFIX) for name in registry.contenders() if name.startswith(PREFIX)]
# A site takes a second, most of it imports. A sample plays our own and PyMongo's; other peers' sites differ little from
# it.
IN_THE_SAMPLE = ("nothing", "ready", "pymongo")
SITES = [
    name if "mangonel" in name or name in IN_THE_SAMPLE else pytest.param(name, marks=pytest.mark.no_sample)
    for name in NAMES
]


@pytest.fixture
def play(server, database_name, bench_of):
    """Return a function that makes the task of one part for one contender. The tasks of a contender share its site."""
    target = Target(server.uri, database_name, "unused")
    bench = functools.cache(lambda name: bench_of(PREFIX + name, target, SIZE))
    return lambda name, part: PageTask(PAGES[part], bench(name))


def test_every_stack_is_a_contender_and_every_contender_a_stack():
    assert sorted(NAMES) == sorted(STACKS)
    offering = {n.removeprefix(PREFIX) for n, c in registry.contenders().items() if ORIGINAL in c.offers}
    assert offering == set(ORIGINALS)


@pytest.mark.enough(2)
@pytest.mark.parametrize("name", SITES)
def test_every_site_gives_the_pages_that_were_stored_first_and_last(play, name):
    play(name, "new-connections").verify()
    if DATABASE in registry.contender(PREFIX + name).offers:
        play(name, "newest").verify()


def test_a_load_tells_time_processor_time_and_latencies(play):
    task = play("mangonel", "new-connections")
    task.verify()
    task.arrange()
    assert task.act() == 40
    told = task.extras()
    assert min(told["wall_ns"], told["cpu_ns"], told["p50"]) > 0


@pytest.mark.enough(1)
@pytest.mark.parametrize("name", ["motor", "pymongo-gevent"])
def test_the_originals_page_has_the_originals_dates(play, name):
    task = play(name, "original-10")
    task.verify()
    assert '"created": "2015-11-01 00:00:00"' in task._body


def test_the_original_is_loaded_by_ab_or_by_what_sends_as_ab_does(play, monkeypatch):
    task = play("mangonel-blocking", "original-10")
    task.verify()
    for has_ab in (True, False) if web.has_program("ab") else (False,):
        monkeypatch.setattr(web, "has_program", lambda name, has_ab=has_ab: has_ab)
        assert task.act() == 100
        assert {"p50", "p99"} <= task.extras().keys()


def test_the_database_of_the_delayed_part_is_five_ms_away(play):
    task = play("mangonel", "delayed")
    task.verify()
    begun = time.perf_counter()
    task._site.get("/delayed")
    assert time.perf_counter() - begun >= 0.005


def test_a_constant_rate_is_kept(play):
    task = play("nothing", "rate-150")
    task.verify()
    task.warm_up()
    assert task.act() == 150
    told = task.extras()
    # 150 requests at even intervals begin within a second, however slow the site is.
    assert told["wall_ns"] >= 0.99e9
    assert told["lag_p99"] >= 0


def test_a_page_with_another_post_is_refused(play, server, database_name):
    task = play("mangonel", "new-connections")
    with MongoClient(server.uri) as client:
        posts = client[database_name].get_collection("web_posts_200")
        posts.update_one({"_id": posts.find_one()["_id"]}, {"$set": {"title": "Another"}})
    with pytest.raises(AssertionError, match="Another"):
        task.verify()


def test_a_million_posts_are_filled_in_before_the_first_round_unless_another_number_is_asked_for():
    assert DATASETS[web.EXPERIMENT.filled(Size())][0] == 1_000_000
    assert DATASETS[web.EXPERIMENT.filled(Size(quick=True))][0] == 50_000
    assert web.EXPERIMENT.filled(SIZE) == ""


def test_the_parts_of_a_worker_share_a_site_and_a_site_that_ended_is_replaced(play):
    site = play("ready", "new-connections")._site
    assert play("ready", "kept-connections")._site is site
    end(site.process)
    assert site.process.returncode == 0
    other = play("ready", "kept-connections")
    assert other._site is not site
    other.verify()


def test_posts_are_stored_once_for_all_contenders(server, database_name):
    target = Target(server.uri, database_name, "unused")
    ensure_posts(target, "posts", 50)
    with MongoClient(server.uri) as client:
        posts = client[database_name].get_collection("posts")
        posts.update_one({}, {"$set": {"kept": True}})
        ensure_posts(target, "posts", 50)
        assert posts.count_documents({"kept": True}) == 1
        ensure_posts(target, "posts", 40)
        assert posts.count_documents({}) == 40


def test_a_page_of_gevents_server_does_not_wait_for_an_acknowledgement(play):
    task = play("mangonel-gevent", "new-connections")
    # The fastest of them counts: a delayed acknowledgement takes 40 ms in each, on any machine.
    assert generate(task._site.port, 40, 1, rate=100).services_us[0] < 30_000
