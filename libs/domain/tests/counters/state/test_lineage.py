"""Recent snapshots as bytes, against a plain list of them."""

from __future__ import annotations

from firnline_domain.counters.state.lineage import SNAPSHOTS, Lineage
from hypothesis import given, settings
from hypothesis import strategies as st

Link = tuple[int, int | None]
# Ids that are bytes of each other's neighbours, so that some are found across two of them.
IDS = st.sampled_from([0, 1, 256, 2**56, 2**63 - 1, -1, 0x0101010101010101, 0x0100000000000001])
FAR = 2**62


def chain(length: int, first: int = FAR) -> list[Link]:
    return [(first + step, first + step - 1) for step in range(length)]


def test_the_newest_64_are_known_with_their_parents() -> None:
    links = chain(100)
    found = Lineage.from_links(links)
    assert found.parent_by_id() == dict(links[-SNAPSHOTS:])
    assert len(found.chain) == 8 * 65
    assert found.has_snapshot(FAR + 99)
    assert found.has_snapshot(FAR + 36)
    assert not found.has_snapshot(FAR + 35)  # the oldest one's parent, and no more


def test_a_parent_alone_is_not_known() -> None:
    found = Lineage.from_links([(2, 1), (9, 8), (3, 2)])
    assert [one for one in range(10) if found.has_snapshot(one)] == [2, 3, 9]
    assert found.parent_by_id() == {2: 1, 9: 8, 3: 2}


def test_one_without_a_parent() -> None:
    assert Lineage.from_links([(1, None), (2, 1), (5, None)]).parent_by_id() == {
        1: None,
        2: 1,
        5: None,
    }


def test_an_id_across_two_others_is_not_there() -> None:
    inside = int.from_bytes((1).to_bytes(8, "little")[4:] + (2).to_bytes(8, "little")[:4], "little")
    assert not Lineage.from_links([(1, None), (2, 1)]).has_snapshot(inside)
    assert Lineage.from_links([(1, None), (2, 1), (inside, 2)]).has_snapshot(inside)


@settings(deadline=None)
@given(st.lists(st.tuples(IDS, st.none() | IDS), max_size=30, unique_by=lambda link: link[0]))
def test_it_says_what_a_list_says(links: list[Link]) -> None:
    found = Lineage.from_links(links)
    assert found.parent_by_id() == dict(links)
    assert all(found.has_snapshot(one) for one, _ in links)
    others = {one for _, one in links if one is not None} - {one for one, _ in links}
    assert not any(found.has_snapshot(one) for one in others)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2**63 - 1), st.booleans()), unique_by=lambda one: one[0]))
def test_with_forks_the_newest_stay(steps: list[tuple[int, bool]]) -> None:
    """A fork takes the room of two snapshots; a third of 64 are there at the worst."""
    before: int | None = None
    links: list[Link] = []
    for snapshot_id, forks in steps:
        links.append((snapshot_id, snapshot_id ^ 2**62 if forks else before))
        before = snapshot_id
    found = Lineage.from_links(links).parent_by_id()
    assert found == dict(links[len(links) - len(found) :])
    assert len(found) >= min(len(links), SNAPSHOTS // 3)
    assert len(found) <= SNAPSHOTS
