"""Properties that outputs are written by, `write.parquet.*`: what makes sense of each. And those
that Iceberg's Java library reads with every commit: none of its commits goes through, a writer's or
ours, while it cannot read one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from firnline_domain.base.numbers import Range, real_range, whole_range
from firnline_domain.base.values import Value

GIB = 1 << 30
INT, LONG = (1 << 31) - 1, (1 << 63) - 1  # the most that Java's hold


class Choice(Value):
    """The words that a property may be, in whatever case."""

    words_allowed: tuple[str, ...]
    whose: str = ""  # what it is said of

    def parse(self, text: str) -> str | None:
        """Return the word; None if the text is another."""
        word = text.lower()
        return word if word in self.words_allowed else None

    @property
    def allowed_text(self) -> str:
        """Describe the words that are accepted."""
        return f"word: {' or '.join(self.words_allowed)}{self.whose}"


class JavaNumber(Value):
    """A number as Java parses it, with a sign or without: what it means is Iceberg's affair."""

    most: int

    def parse(self, text: str) -> int | None:
        """Return the number; None if Java would throw."""
        value = int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text, re.ASCII) else None
        return value if value is not None and -self.most - 1 <= value <= self.most else None

    @property
    def allowed_text(self) -> str:
        """Describe the numbers that are accepted."""
        return f"whole number up to {self.most:,}"


class Text(Value):
    """Any text but an empty one."""

    def parse(self, text: str) -> str | None:
        """Return the text; None if it is empty."""
        return text or None

    @property
    def allowed_text(self) -> str:
        """Describe what to write."""
        return "path that is not empty"


class Nothing(Value):
    """A property that must not be set."""

    instead: str

    def parse(self, text: str) -> None:
        """Return None: no text is right."""

    @property
    def allowed_text(self) -> str:
        """Describe what to write."""
        return f"value for {self.instead} instead"


CODEC = "write.parquet.compression-codec"
# Those that Iceberg's Java library knows by name; Arrow has no LZO, which is handed over.
CODECS = ("zstd", "gzip", "snappy", "lz4", "lz4_raw", "brotli", "uncompressed", "lzo")
INFERRED_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"
_SWITCH = Choice(("true", "false"))
PARQUET: dict[str, Range | Choice] = {
    "write.parquet.row-group-size-bytes": whole_range(1_000, 2 * GIB - 1),  # an int of Iceberg's
    "write.parquet.page-size-bytes": whole_range(100, GIB),
    "write.parquet.page-row-limit": whole_range(10, 1_000_000_000),
    "write.parquet.dict-size-bytes": whole_range(1_000, GIB),
    "write.parquet.compression-level": whole_range(
        1, 22
    ),  # of zstd; other codecs take their own highest
    "write.parquet.bloom-filter-max-bytes": whole_range(32, GIB // 8),  # Arrow's largest
    "write.parquet.page-version": Choice(("v1", "v2")),
    CODEC: Choice(CODECS),
    # Of the footer's statistics, which Iceberg's Java library makes metrics of.
    INFERRED_COLUMNS: whole_range(0, INT),
}
# By column, whose name comes behind.
BLOOM_FILTER = "write.parquet.bloom-filter-enabled.column."
PARQUET_COLUMNS: dict[str, Range | Choice] = {
    "write.parquet.bloom-filter-fpp.column.": real_range(0.000001, 0.999),
    "write.parquet.bloom-filter-ndv.column.": whole_range(
        1, 100_000_000
    ),  # 128 MiB, Arrow's largest
    BLOOM_FILTER: Choice(_SWITCH.words_allowed, ", of a column that can have such a filter"),
    "write.parquet.dict-encoding-enabled.column.": _SWITCH,
    "write.parquet.stats-enabled.column.": _SWITCH,
}


_DATA_PATH = "write.data.path"
OF_COMMITS: dict[str, JavaNumber | Choice | Text | Nothing] = {
    "commit.retry.num-retries": JavaNumber(INT),
    "commit.retry.min-wait-ms": JavaNumber(INT),
    "commit.retry.max-wait-ms": JavaNumber(INT),
    "commit.retry.total-timeout-ms": JavaNumber(INT),
    "commit.manifest.target-size-bytes": JavaNumber(LONG),
    "commit.manifest.min-count-to-merge": JavaNumber(INT),
    "write.summary.partition-limit": JavaNumber(INT),
    "write.manifest.compression-codec": Choice(("uncompressed", "snappy", "gzip", "zstd")),
    _DATA_PATH: Text(),
    "write.folder-storage.path": Nothing(_DATA_PATH),
    "write.object-storage.path": Nothing(_DATA_PATH),
}


def unusable_properties(properties: Mapping[str, str]) -> Iterator[str]:
    """Yield properties at which Iceberg's Java library throws, in words."""
    for name, wanted in OF_COMMITS.items():
        if name in properties and wanted.parse(properties[name]) is None:
            yield (
                f"{name}={properties[name]} cannot be read by Iceberg's Java library, which "
                f"commits nothing as long as it stands there: remove it, or write "
                f"a {wanted.allowed_text}"
            )


def readable_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those whose value is none or makes no sense: they are unset."""
    wrong = {name for name, _ in out_of_range(properties)}
    return {name: text for name, text in properties.items() if name not in wrong}


def out_of_range(properties: Mapping[str, str]) -> Iterator[tuple[str, Range | Choice]]:
    """Yield properties whose value is none or makes no sense, each with what would."""
    for name, text in properties.items():
        if (wanted := _allowed_values(name)) and wanted.parse(text) is None:
            yield name, wanted


def _allowed_values(name: str) -> Range | Choice | None:
    if name in PARQUET:
        return PARQUET[name]
    return next((found for start, found in PARQUET_COLUMNS.items() if name.startswith(start)), None)
