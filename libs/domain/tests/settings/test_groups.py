"""Which groups a fleet has, by its own words."""

from __future__ import annotations

import pytest
from firnline_domain.errors import Misconfigured
from firnline_domain.policy.fleet.lanes import (
    TOPICS,
    Lane,
    group_at,
    lane_at,
    lane_topic,
    topics_of_group,
)
from firnline_domain.settings.groups import (
    FORM,
    Group,
    canonical_name,
    group_name,
    group_names,
    parse_groups,
    serving_group,
    unserved_text,
)
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.from_regex(FORM, fullmatch=True)
QUOTAS = st.none() | st.floats(min_value=1e-6, max_value=1e12)
FLEET = parse_groups("etl=2.5, adhoc")


def written(group: Group) -> str:
    name = group.name or "default"
    return name if group.quota_gb_hours is None else f" {name} = {group.quota_gb_hours!r} "


@given(st.dictionaries(NAMES.map(canonical_name), QUOTAS))
def test_what_is_written_is_read(quotas: dict[str, float | None]) -> None:
    groups = tuple(Group(name, quota) for name, quota in quotas.items())
    assert parse_groups(",".join(map(written, groups))) == groups


@given(st.text(max_size=60))
def test_any_text_is_groups_or_is_refused(text: str) -> None:
    try:
        groups = parse_groups(text)
    except Misconfigured:
        return
    assert len({one.name for one in groups}) == len(groups)
    assert all(FORM.fullmatch(one) for one in group_names(groups))
    assert all(one.quota_gb_hours is None or one.quota_gb_hours > 0 for one in groups)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ETL", "'ETL': the name of a group is 1 to 40 small letters"),
        ("-etl", "the name of a group"),
        ("e" * 41, "the name of a group"),
        ("etl.prod", "the name of a group"),  # what stands before a group's name in its topics
        ("etl\n", None),
        ("etl,,adhoc", "'': the name of a group"),
        ("etl=", "'' is no number of GB-hours"),
        ("etl=two", "'two' is no number of GB-hours"),
        ("etl=0", "a quota is above 0"),
        ("etl=-1", "a quota is above 0"),
        ("etl=inf", "a quota is above 0"),
        ("etl=nan", "a quota is above 0"),
        ("etl=1,etl", "'etl' is there twice"),
        ("default,default=2", "'default' is there twice"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str | None) -> None:
    if said is None:
        assert parse_groups(text) == (Group("etl"),)
        return
    with pytest.raises(Misconfigured, match=r"^FIRNLINE_GROUPS: ") as error:
        parse_groups(text)
    assert said in str(error.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Misconfigured, match=r"'Adhoc': .*; 'etl=x': "):
        parse_groups("etl=x,Adhoc")


def test_no_groups_and_the_quota_of_the_default_one() -> None:
    assert parse_groups("") == parse_groups("  ") == ()
    assert parse_groups("default=4,etl") == (Group("", 4.0), Group("etl"))
    assert [*group_names(parse_groups("default=4,etl"))] == ["etl"]


@pytest.mark.parametrize(
    ("wanted", "group"),
    [("etl", "etl"), (" adhoc ", "adhoc"), ("", ""), ("default", ""), ("ETL", ""), ("bi", "")],
)
def test_who_serves_a_table(wanted: str, group: str) -> None:
    assert serving_group(wanted, FLEET) == group
    assert (unserved_text(wanted, FLEET) is None) == (canonical_name(wanted) == group)


def test_who_is_not_served_reads_which_groups_there_are() -> None:
    assert "(it has: adhoc, default, etl)" in (unserved_text("bi", FLEET) or "")
    assert "(it has: default)" in (unserved_text("etl", ()) or "")


def test_the_one_group_of_a_worker() -> None:
    assert [group_name("V", text) for text in ("", "default", " etl ")] == ["", "", "etl"]
    with pytest.raises(Misconfigured, match=r"^V='Etl': the name of a group"):
        group_name("V", "Etl")


@given(st.sampled_from(Lane), NAMES)
def test_every_group_has_topics_of_its_own_that_tell_group_and_lane(lane: Lane, name: str) -> None:
    topic = lane_topic(lane, name)
    assert topic not in TOPICS.values()
    assert (lane_at(topic), group_at(topic)) == (lane, name)
    assert len(topic) <= 249  # Kafka's longest


def test_the_default_group_has_the_topics_that_there_always_were() -> None:
    assert topics_of_group("") == ["rewrite-tasks", "rewrite-tasks-heavy"]
    assert topics_of_group("etl") == ["rewrite-tasks.etl", "rewrite-tasks-heavy.etl"]
    assert [group_at(one) for one in TOPICS.values()] == ["", ""]
    strangers = ("table-tasks", "rewrite-tasks.", "rewrite-tasks.Etl", "rewrite-tasks.a.b")
    assert [group_at(one) for one in strangers] == [None] * 4
    assert lane_at("table-tasks") is Lane.ORDINARY
