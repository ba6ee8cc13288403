"""Specs that the native path must not touch."""

from __future__ import annotations

import pytest
from firnline_worker.rewrite.eligibility import _spec_obstacles
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    UnknownTransform,
    VoidTransform,
)
from pyiceberg.types import DoubleType, LongType, NestedField

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "ratio", DoubleType()))


class Table:
    """The part of a LoadedTable that the check looks at."""

    schema = SCHEMA

    class metadata:  # noqa: N801  an attribute
        schemas = (SCHEMA,)


def spec(*fields: tuple[int, Transform]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(source, 1000 + place, kind, f"p{place}")
            for place, (source, kind) in enumerate(fields)
        )
    )


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ([], []),
        ([(1, IdentityTransform())], []),
        ([(1, BucketTransform(4)), (1, VoidTransform())], []),
        ([(1, VoidTransform())], []),
        ([(1, VoidTransform()), (2, VoidTransform())], []),
        ([(2, IdentityTransform())], ["float_partition"]),
        ([(1, UnknownTransform("later[3]"))], ["unknown_transform"]),
    ],
)
def test_reasons_against_a_spec(fields: list[tuple[int, Transform]], reasons: list[str]) -> None:
    assert list(_spec_obstacles(Table(), spec(*fields))) == reasons  # type: ignore[arg-type]
