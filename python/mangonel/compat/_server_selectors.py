"""PyMongo's `server_selectors`: each returns the suitable servers of a selection, for use in a `server_selector=`.

The core chooses servers by itself and does not use these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mangonel.server_type import SERVER_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mangonel.server_description import ServerDescription
    from mangonel.topology_description import TopologyDescription

TagSet = Mapping[str, Any]
TagSets = Sequence[TagSet]


class Selection:
    """Servers of a topology: the argument and the result of a selector.

    Args:
        topology_description: the topology.
        server_descriptions: the servers in the selection.
        common_wire_version: the greatest wire version that all servers support, or None.
        primary: the primary, or None.
    """

    def __init__(
        self,
        topology_description: TopologyDescription,
        server_descriptions: list[ServerDescription],
        common_wire_version: int | None,
        primary: ServerDescription | None,
    ) -> None:
        self.topology_description = topology_description
        self.server_descriptions = server_descriptions
        self.common_wire_version = common_wire_version
        self.primary = primary

    @classmethod
    def from_topology_description(cls, topology_description: TopologyDescription) -> Selection:
        """Return the selection of all servers."""
        servers = list(topology_description.server_descriptions().values())
        primary = next((each for each in servers if each.server_type == SERVER_TYPE.RSPrimary), None)
        return cls(topology_description, servers, topology_description.common_wire_version, primary)

    def with_server_descriptions(self, server_descriptions: list[ServerDescription]) -> Selection:
        """Return a selection of other servers with the same topology."""
        return type(self)(
            self.topology_description, server_descriptions, self.common_wire_version, self.primary
        )

    def _only(self, fits: Callable[[ServerDescription], object]) -> Selection:
        return self.with_server_descriptions([each for each in self.server_descriptions if fits(each)])

    def secondary_with_max_last_write_date(self) -> ServerDescription | None:
        """Return the secondary with the latest write, or None if there is no secondary."""
        secondaries: list[Any] = secondary_server_selector(self).server_descriptions
        return max(secondaries, key=lambda each: each.last_write_date, default=None)

    @property
    def primary_selection(self) -> Selection:
        """The primary alone, or nothing."""
        return self.with_server_descriptions([] if self.primary is None else [self.primary])

    @property
    def topology_type(self) -> int:
        """One of `TOPOLOGY_TYPE`."""
        return self.topology_description.topology_type

    def __bool__(self) -> bool:
        return bool(self.server_descriptions)

    def __getitem__(self, item: int) -> ServerDescription:
        return self.server_descriptions[item]


def any_server_selector(selection: Selection) -> Selection:
    """Return the selection itself."""
    return selection


def readable_server_selector(selection: Selection) -> Selection:
    """Return the servers that accept reads."""
    return selection._only(lambda each: each.is_readable)


def writable_server_selector(selection: Selection) -> Selection:
    """Return the servers that accept writes."""
    return selection._only(lambda each: each.is_writable)


def secondary_server_selector(selection: Selection) -> Selection:
    """Return the secondaries."""
    return selection._only(lambda each: each.server_type == SERVER_TYPE.RSSecondary)


def arbiter_server_selector(selection: Selection) -> Selection:
    """Return the arbiters."""
    return selection._only(lambda each: each.server_type == SERVER_TYPE.RSArbiter)


def writable_preferred_server_selector(selection: Selection) -> Selection:
    """Return the servers that accept writes; if there are none, the secondaries."""
    return writable_server_selector(selection) or secondary_server_selector(selection)


def apply_single_tag_set(tag_set: TagSet, selection: Selection) -> Selection:
    """Return the servers that have all these tags; an empty set returns all servers."""
    return selection._only(lambda each: tag_set.items() <= each.tags.items())


def apply_tag_sets(tag_sets: TagSets, selection: Selection) -> Selection:
    """Return the servers that match a tag set: the first one that any server matches."""
    for tag_set in tag_sets:
        if found := apply_single_tag_set(tag_set, selection):
            return found
    return selection.with_server_descriptions([])


def secondary_with_tags_server_selector(tag_sets: TagSets, selection: Selection) -> Selection:
    """Return the secondaries that match these tag sets."""
    return apply_tag_sets(tag_sets, secondary_server_selector(selection))


def member_with_tags_server_selector(tag_sets: TagSets, selection: Selection) -> Selection:
    """Return the servers that accept reads and match these tag sets."""
    return apply_tag_sets(tag_sets, readable_server_selector(selection))
