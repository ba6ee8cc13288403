"""The tables of the bench: what they look like, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

KeyKind = Literal["long", "composite"]
SpecKind = Literal["identity", "day", "bucket", "none"]


@dataclass(frozen=True)
class Shape:
    """A streaming-upsert table: one append, then `commits` commits, each of which writes a data
    file and an equality-delete file of the same keys into every partition."""

    name: str
    keys: KeyKind = "long"
    spec: SpecKind = "identity"
    partitions: int = 6
    base_rows: int = 10_000_000  # of the table, evenly over partitions
    base_files: int = 2  # per partition
    upserts: int = 5_000_000  # delete rows of the table; about as many rows come with them
    commits: int = 40
    growing: bool = True  # partition n has n times the first one's upserts; else all the same
    new_share: float = 0.3  # of the upserts: keys that the table does not know
    hot_share: float = 0.05  # of the keys ...
    hot_weight: float = 0.8  # ... that take this share of the other upserts
    row_group_rows: int = 1 << 20
    null_share: float = 0.0  # of each column of a composite key
    target_bytes: int | None = None  # of files; None = Iceberg's default
    on_store: bool = False  # data in an object store; metadata stays local
    seed: int = 3

    def upserts_of(self, partition: int) -> int:
        """Upserted rows per commit of one partition."""
        weights = range(1, self.partitions + 1) if self.growing else [1] * self.partitions
        return self.upserts * weights[partition] // sum(weights) // max(self.commits, 1)

    def scaled(self, factor: float) -> Shape:
        """The same with `factor` times the rows; the commits stay."""
        rows, upserts = int(self.base_rows * factor), int(self.upserts * factor)
        name = f"{self.name}_x{factor:g}".replace(".", "_")
        return self if factor == 1 else replace(self, name=name, base_rows=rows, upserts=upserts)


MAIN = Shape("main")
COMPOSITE = Shape("composite", keys="composite", base_rows=7_000_000, upserts=3_500_000)
WARM = Shape("warm", partitions=2, base_rows=20_000, upserts=4_000, commits=3)
NULLS = Shape(
    "nulls",
    keys="composite",
    partitions=2,
    base_rows=40_000,
    upserts=20_000,
    commits=4,
    null_share=0.1,
)

SHAPES = {shape.name: shape for shape in (MAIN, COMPOSITE, WARM, NULLS)}
