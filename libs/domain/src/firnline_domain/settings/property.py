"""Define a table property, and those that the workers alone read."""

from __future__ import annotations

from firnline_domain.base.numbers import Range, whole_range
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import Value

AGE_MS = 100 * 365 * DAY_MS  # what people write for never; no record tells of longer ones
PAUSE = whole_range(0, AGE_MS)
SIZE = whole_range(0, 1 << 50)  # a petabyte
FILES = whole_range(0, 1_000_000_000)


class Property(Value):
    """A table property: the field of `Thresholds` with its type and default, and its meaning. A
    number outside the range counts as unset, and its owner is advised. `is_common`: one of the ten
    that most people need."""

    field: str
    about: str
    range: Range | None = None
    is_common: bool = False


# Read by the workers, from the table's own properties alone.
WORKERS = {
    "firnline.rewrite.hold-off-ms": PAUSE,
    "firnline.rewrite.max-span-ms": PAUSE,
}
ABOUT_WORKERS = {
    "firnline.rewrite.hold-off-ms": (
        "Do not rewrite `main` while a branch with a younger commit is ahead of it, or a younger "
        "commit is staged (`wap.id`), because a rewrite would make the fast-forward fail. Read "
        "from the table only. `0`: no wait."
    ),
    "firnline.rewrite.max-span-ms": (
        "Merge only files whose rows were committed within this time of each other, so that "
        "readers can skip files of an unpartitioned table by time. Read from the table only. `0`: "
        "any files."
    ),
}
