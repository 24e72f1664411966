"""The ring of the demo's feed: a returning browser gets the changes that it missed."""

from __future__ import annotations

import pytest

from mangonel.demo.ring import LAST, Position, Ring


def filled(size: int, count: int) -> Ring:
    """A ring that took `count` events, one per cluster time, the first at (1, 0)."""
    ring = Ring(size, Position(0, 0, LAST))
    for number in range(count):
        ring.add(Position(number + 1, 0, f"{number:04X}"), f"event {number}")
    return ring


def test_the_position_of_a_frame_leads_to_the_event_behind_it() -> None:
    ring = filled(100, 10)
    events, position = ring.events(0, 4)
    number = ring.number_behind(Position.parse(str(position)))
    assert events == ["event 0", "event 1", "event 2", "event 3"]
    assert number == 4


def test_changes_of_one_cluster_time_are_told_apart_by_their_tokens() -> None:
    ring = Ring(10, Position(0, 0, LAST))
    for token in ("82A0", "82A1", "82B0"):
        ring.add(Position(7, 1, token), token)
    number = ring.number_behind(Position(7, 1, "82A1"))
    assert number is not None
    assert ring.events(number, 10)[0] == ["82B0"]


def test_a_position_whose_followers_have_left_is_not_in_the_ring() -> None:
    ring = filled(100, 1000)
    kept = ring.next - ring.first
    assert 100 <= kept <= 125
    assert ring.number_behind(Position(1, 0, "0000")) is None
    # The ring starts after the last event that left: everything later is here.
    assert ring.number_behind(ring.start) == ring.first


def test_a_page_that_begins_behind_a_snapshot_is_given_what_came_later_only() -> None:
    ring = filled(100, 10)
    assert ring.number_behind(Position(5, 0, LAST)) == 5


@pytest.mark.parametrize("text", ["", "1.2", "1.2.3.4", "a.2.82", "1.2.<b>", "1.2.82\n"])
def test_a_position_that_no_frame_had_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Position.parse(text)
