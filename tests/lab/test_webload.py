"""Load generators for web sites: their counts, their refusals, and their attribution of lateness. No database."""

from __future__ import annotations

import contextlib
import itertools
import socketserver
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from mangonel.lab import webload
from mangonel.lab.webload import Seen, generate, percentile, run_ab, run_wrk
from tools.needed import needed

Answer = Callable[[int, bytes], bytes]


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.fixture
def site() -> Iterator[Callable[[Answer], int]]:
    """Return a function that serves responses, numbered from 0, and returns the port."""
    with contextlib.ExitStack() as stack:

        def serve(answer: Answer) -> int:
            numbers = itertools.count()

            class Talk(socketserver.StreamRequestHandler):
                def handle(self) -> None:
                    with contextlib.suppress(OSError):
                        while request := b"".join(itertools.takewhile(bytes.strip, self.rfile)):
                            self.wfile.write(answer(next(numbers), request))
                            # `ab` speaks HTTP/1.0 and waits for the end of the connection.
                            if b"Connection: close" in request or b"HTTP/1.0" in request:
                                return

            class Server(socketserver.ThreadingTCPServer):
                daemon_threads, block_on_close, request_queue_size = True, False, 200

            server = stack.enter_context(Server(("127.0.0.1", 0), Talk))
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.shutdown)
            return int(server.server_address[1])

        yield serve


@pytest.mark.parametrize("keep_alive", [True, False])
def test_a_closed_loop_sends_as_many_requests_as_were_ordered(site, keep_alive):
    asked: list[bytes] = []

    def answer(number: int, request: bytes) -> bytes:
        asked.append(request.partition(b"\r\n")[0])
        return ok(b"page")

    targets = [("/a", ""), ("/b", "")]
    found = generate(site(answer), 50, 5, keep_alive=keep_alive, expected="page", targets=targets)

    assert len(asked) == len(found.latencies_us) == 50
    assert asked.count(b"GET /a HTTP/1.1") == asked.count(b"GET /b HTTP/1.1") == 25
    assert found.lags_us == []
    assert found.latencies_us == sorted(found.latencies_us)


def test_a_cookie_goes_with_its_request(site):
    port = site(lambda number, request: ok(b"known" if b"\r\nCookie: id=7" in request else b"new"))
    generate(port, 4, 2, targets=[("/", "id=7")], expected="known")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda number: ok(b"page" if number < 9 else b"pag3"), "expected b'page'"),
        (lambda number: b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "expected HTTP/1.x 200"),
        (lambda number: b"HTTP/1.1 200 OK\r\n\r\n", "Content-Length"),
        (lambda number: ok(b"page") + b"more", "more bytes"),
    ],
    ids=["another body", "another status", "no length", "too long"],
)
def test_one_wrong_answer_voids_the_whole_load(site, answer, told):
    port = site(lambda number, request: answer(number))
    with pytest.raises(RuntimeError, match=told):
        generate(port, 20, 2, expected="page")


def test_an_answer_in_pieces_is_put_together(site):
    port = site(lambda number, request: ok(b"x" * 600_000))
    assert len(generate(port, 3, 1, expected="x" * 600_000).latencies_us) == 3


def test_a_site_that_stalls_is_charged_with_every_request_it_kept_waiting(site):
    def answer(number: int, request: bytes) -> bytes:
        time.sleep(0.5 * (number == 0))
        return ok(b"page")

    # One connection, 100 requests a second: a stalled request delays about fifty others.
    steady = generate(site(answer), 60, 1, rate=100)
    closed = generate(site(answer), 60, 1)

    assert sum(took > 100_000 for took in steady.latencies_us) >= 30
    assert steady.waiting >= 30
    # One after another: all of them waited through the same stall once, while the waits above overlap.
    assert closed.latencies_us[-1] > 400_000
    assert sum(closed.latencies_us) <= closed.seconds * 1e6 < sum(steady.latencies_us)
    # Only requests that found a free connection measure the generator's lateness: it does not include the site's.
    assert 1 <= len(steady.lags_us) <= 30


def test_a_load_that_is_not_answered_in_time_ends(site):
    port = site(lambda number, request: time.sleep(0.05) or ok(b"page"))
    with pytest.raises(RuntimeError, match=r"of 500 requests were answered within 0.3 s"):
        generate(port, 500, 1, seconds=0.3)


def seen(latency: int, service: int, lags: list[int]) -> Seen:
    return Seen(1.0, [latency] * 100, [service] * 100, lags, 0, 0.1)


def test_a_run_whose_generator_lagged_has_no_latencies():
    good = seen(1000, 900, [5] * 98 + [100, 100]).figures()
    assert (good["p50"], good["void"]) == (1000.0, 0.0)
    assert seen(1000, 900, [5] * 98 + [101, 101]).figures() == {"lag_p99": 101.0, "void": 1.0}
    assert "void" not in seen(1000, 1000, []).figures()


def test_histograms_keep_response_and_service_apart():
    pytest.importorskip("hdrh", reason="the lab's histograms are not installed")
    from mangonel.lab.latency import Latencies

    steady = seen(5000, 1000, [5] * 100).histograms()
    assert Latencies([steady["response"]]).at(50) == pytest.approx(5000, rel=0.01)
    assert Latencies([steady["service"]]).at(50) == pytest.approx(1000, rel=0.01)
    assert seen(5000, 1000, [5000] * 100).histograms() == {}
    assert seen(1000, 1000, []).histograms().keys() == {"service"}


def test_upstream_bug_a_percentile_of_one_value_is_that_value():
    values = list(range(1, 1001))
    assert [percentile(values, share) for share in (50, 99, 99.9, 100)] == [500, 990, 999, 1000]
    assert percentile([7], 99.9) == percentile([7], 0.1) == 7
    with pytest.raises(ValueError, match="at least one"):
        percentile([], 50)


def test_trap_5_ab_fails_for_errors_and_for_another_length_unless_told_that_lengths_vary(site):
    needed("ab")
    port = site(lambda number, request: b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(RuntimeError, match="20 of 20 requests failed"):
        run_ab(f"http://127.0.0.1:{port}/", 20, 2)
    port = site(lambda number, request: ok(b"x" * (1 + number % 2)))
    with pytest.raises(RuntimeError, match="requests failed"):
        run_ab(f"http://127.0.0.1:{port}/", 20, 2)
    run = run_ab(f"http://127.0.0.1:{port}/", 20, 2, same_length=False)
    assert min(run.seconds, run.requests_per_second) > 0
    assert run.percentiles_ms.keys() == {50, 66, 75, 80, 90, 95, 98, 99, 100}


def test_wrk_tells_requests_per_second_and_refuses_errors(site):
    needed("wrk")
    assert run_wrk(f"http://127.0.0.1:{site(lambda number, request: ok(b'page'))}/", 1, 2) > 0
    wrong = site(lambda number, request: b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(RuntimeError, match="Non-2xx"):
        run_wrk(f"http://127.0.0.1:{wrong}/", 1, 2)


def test_trap_7_no_load_looks_for_processes_by_name():
    # On a shared machine a name also matches other people's servers: only a child's own id may be ended or metered.
    from pathlib import Path

    for path in Path(webload.__file__).parent.rglob("*.py"):
        for name in ("pgrep", "pkill", "killall", "pidof"):
            assert name not in path.read_text(), path
