"""Numbers of `write.parquet.*`, which workers write outputs by: what makes sense of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firnline_domain.numbers import Range, real, whole

GIB = 1 << 30
PARQUET = {
    "write.parquet.row-group-size-bytes": whole(1_000, 2 * GIB - 1),  # an int of Iceberg's
    "write.parquet.page-size-bytes": whole(100, GIB),
    "write.parquet.page-row-limit": whole(10, 1_000_000_000),
    "write.parquet.dict-size-bytes": whole(1_000, GIB),
    "write.parquet.compression-level": whole(1, 22),  # of zstd; other codecs take their own highest
}
# By column, whose name comes behind.
PARQUET_COLUMNS = {
    "write.parquet.bloom-filter-fpp.column.": real(0.000001, 0.999),
    "write.parquet.bloom-filter-ndv.column.": whole(1, 100_000_000),  # 128 MiB, Arrow's largest
}


def readable(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without those whose number is none or makes no sense: they are unset."""
    wrong = {name for name, _ in outside(properties)}
    return {name: text for name, text in properties.items() if name not in wrong}


def outside(properties: Mapping[str, str]) -> Iterator[tuple[str, Range]]:
    """Properties whose number is none or makes no sense, each with what would."""
    for name, text in properties.items():
        if (wanted := _range(name)) and wanted.read(text) is None:
            yield name, wanted


def _range(name: str) -> Range | None:
    if name in PARQUET:
        return PARQUET[name]
    return next((found for start, found in PARQUET_COLUMNS.items() if name.startswith(start)), None)
