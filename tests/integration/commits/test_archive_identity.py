"""Whose an archive is, where it may be, and that nobody else has its rows withdrawn."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.values import replace
from firnline_domain.errors import TaskRefused
from firnline_domain.records.parts.archive_marks import GIVEN_UP, ROUND, SEAL
from firnline_domain.records.signing import Keyring, SigningKey
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.archive_world import (
    SCHEMA,
    World,
    refused_by,
)

pytestmark = pytest.mark.stack


@pytest.fixture
def world(
    lake: RestCatalog, namespace: str, catalog_uri: str, iceberg: IcebergJvm, java_catalog: Any
) -> World:
    return World(lake, namespace, catalog_uri, iceberg.jvm, java_catalog)


def test_an_archive_is_in_the_tables_namespace_or_where_the_operator_says(
    world: World, namespace: str
) -> None:
    """An owner has Firnline make no table where he himself may not."""
    other = f"{namespace}_payroll"
    world.lake.create_namespace(other)
    world.set(**{"firnline.archive.table": f"{other}.bonus"})
    assert refused_by(world) == "archive_namespace"
    assert world.lake.list_tables(other) == []
    world.allow(f"{other}>{namespace}, else>{other}")
    assert refused_by(world) == "archive_namespace"
    world.allow(f"{namespace} > {other}")
    world.archive()
    assert world.days() == [1]
    assert world.lake.list_tables(other) == [(other, "bonus")]


def test_a_table_of_the_same_uuid_withdraws_nothing(world: World) -> None:
    """With all the properties of the source, and marks that say that its last round came back:
    beside the source, and when that was dropped."""
    world.archive()
    place = world.lake.load_table(f"{world.namespace}.t").metadata_location
    world.lake.register_table(f"{world.namespace}.t2", place)
    archive = world.table("t_archive")
    impostor = world.lake.load_table(f"{world.namespace}.t2")
    marks = {ROUND: "x", GIVEN_UP: archive.properties[ROUND]}
    named = {"firnline.archive.table": "t_archive"}
    with impostor.transaction() as change:
        change.set_properties({**marks, **named})
    order = world.order()
    forged = world.table("t2").identity
    for reason in ("shared_identity", "not_an_archive"):
        world.tables = world.archiver.tables = Tables(world.uri)
        with pytest.raises(TaskRefused) as refused:
            world.archiver.archive(replace(order, table=forged))
        assert refused.value.reason == reason
        assert world.kept() == [30, 40, 400]
        if reason == "shared_identity":
            assert refused_by(world) == "shared_identity"
            world.lake.drop_table(f"{world.namespace}.t")


def test_marks_that_a_writer_sets_back_withdraw_nothing(world: World) -> None:
    world.archive()
    archive = world.table("t_archive")
    for marks in ({ROUND: "x"}, {ROUND: "x", GIVEN_UP: archive.properties[ROUND]}):
        world.set(**marks)
        assert refused_by(world) == "archive_changed"
        assert world.kept() == [30, 40, 400]


def test_a_table_that_only_looks_like_its_archive_is_left_alone(world: World) -> None:
    """The properties of a true one, copied; and the true one, moved elsewhere by its owner."""
    world.archive()
    world.insert(50)
    true = world.table("t_archive")
    world.lake.create_table(f"{world.namespace}.t3", SCHEMA, properties=true.properties)
    world.set(**{"firnline.archive.table": "t3"})
    assert refused_by(world) == "not_an_archive"
    world.set(**{"firnline.archive.table": "t_archive"})
    with world.lake.load_table(f"{world.namespace}.t_archive").transaction() as change:
        change.set_properties({SEAL: ""})
    assert refused_by(world) == "not_an_archive"
    with world.lake.load_table(f"{world.namespace}.t_archive").transaction() as change:
        change.set_properties({SEAL: true.properties[SEAL]})
    world.archive()
    assert world.kept() == [30, 40, 50, 400]


def test_an_archive_is_sealed_again_when_the_fleet_has_another_key(world: World) -> None:
    world.archive()
    old, new = SigningKey("k1", b"s" * 32), SigningKey("k2", b"t" * 32)
    world.archiver.keys = Keyring([new, old])
    world.archive()
    world.insert(50)
    world.archiver.keys = Keyring([new])
    world.archive()
    assert world.kept() == [30, 40, 50, 400]
