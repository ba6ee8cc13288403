"""What a table property is, and those that the workers alone read."""

from __future__ import annotations

from firnline_domain.numbers import Range, whole
from firnline_domain.times import DAY_MS
from firnline_domain.values import Value

AGE_MS = 100 * 365 * DAY_MS  # what people write for never; no record tells of longer ones
PAUSE = whole(0, AGE_MS)
SIZE = whole(0, 1 << 50)  # a petabyte
FILES = whole(0, 1_000_000_000)


class Property(Value):
    """A table property: the field of `Thresholds` that has its type and default, the range of a
    number (outside it the property is unset, and its owner is advised), and the reason why one
    would set it; '' = one of the ten that people set."""

    field: str
    range: Range | None = None
    set_where: str = ""


# Read by the workers, from the table's own properties alone.
WORKERS = {
    "firnline.rewrite.hold-off-ms": PAUSE,
    "firnline.rewrite.max-span-ms": PAUSE,
}
WHY_OF_WORKERS = {
    "firnline.rewrite.hold-off-ms": "branches are published later than an hour after their commits",
    "firnline.rewrite.max-span-ms": "readers filter an unpartitioned table by time",
}
