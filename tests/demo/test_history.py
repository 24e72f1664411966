"""The demo's history: counts of each of the last seconds."""

from __future__ import annotations

from mangonel.demo.history import KEPT, History, Reading


class Counters:
    """Counters that a test moves, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self.used = 0

    def read(self) -> Reading:
        return Reading({"events": self.events}, {"used": self.used})

    def history(self) -> History:
        return History(self.read, lambda: self.now)


def test_a_sample_has_the_growth_in_a_second_and_the_levels() -> None:
    counters = Counters()
    history = counters.history()
    counters.now, counters.events, counters.used = 2.0, 300, 4
    history.take()
    assert history.since(0) == [{"events": 150.0, "used": 4}]


def test_a_page_is_given_what_came_since_its_last_report() -> None:
    counters = Counters()
    history = counters.history()
    for second in range(1, KEPT + 50):
        counters.now, counters.used = float(second), second
        history.take()
    assert len(history.since(0)) == KEPT
    number = history.next
    assert history.since(number) == []
    counters.now, counters.used = counters.now + 1, 7
    history.take()
    assert [sample["used"] for sample in history.since(number)] == [7]
