"""`write.parquet.*` table properties, as far as Arrow can do them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firnline_deletes.refusals import Refused

MIB = 1024 * 1024
_CODECS = {
    "zstd": "zstd",
    "gzip": "gzip",
    "snappy": "snappy",
    "lz4": "lz4",
    "brotli": "brotli",
    "uncompressed": "none",
}
_HIGHEST = {"zstd": 22, "gzip": 9, "brotli": 11}  # level that each knows
_ZSTD_LEVEL = 3  # parquet-java's default; Arrow's own is 1


@dataclass(frozen=True)
class ParquetProperties:
    """How outputs are encoded. Sizes in bytes."""

    codec: str = "zstd"
    level: int | None = _ZSTD_LEVEL
    row_group_bytes: int = 128 * MIB
    page_bytes: int = MIB
    page_rows: int = 20_000
    dictionary_bytes: int = 2 * MIB
    data_page_version: str = "1.0"
    no_dictionary: frozenset[str] = frozenset()
    no_statistics: frozenset[str] = frozenset()
    bloom_filters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def writer_options(
        self, leaves: Sequence[str], plain: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """Arguments of `pyarrow.parquet.ParquetWriter`; `leaves` are dotted column paths, `plain`
        those for which a dictionary does not pay."""
        options: dict[str, Any] = {
            "compression": self.codec,
            "data_page_size": self.page_bytes,
            "max_rows_per_page": self.page_rows,
            "dictionary_pagesize_limit": self.dictionary_bytes,
            "data_page_version": self.data_page_version,
            "use_dictionary": _all_but(leaves, self.no_dictionary | plain),
            "write_statistics": _all_but(leaves, self.no_statistics),
        }
        if self.level is not None:
            options["compression_level"] = self.level
        blooms = {leaf: dict(how) for leaf, how in self.bloom_filters.items() if leaf in leaves}
        if blooms:
            options["bloom_filter_options"] = blooms
        return options


def from_table(properties: Mapping[str, str]) -> ParquetProperties:
    """Read a table's properties; absent ones keep Iceberg's defaults. Refused: codec.

    Raises ValueError for a number that is none: who reads somebody else's table leaves those out
    before, and those that make no sense (`firnline_domain.settings.parquet.readable`).

    A table without a codec gets zstd, the default of every table created since Iceberg 1.4.
    """
    get = _Prefixed(properties)
    name = get.text("compression-codec", "zstd").lower()
    if name not in _CODECS:
        raise Refused("codec", name)
    return ParquetProperties(
        codec=_CODECS[name],
        level=_level(name, properties.get("write.parquet.compression-level")),
        row_group_bytes=get.number("row-group-size-bytes", 128 * MIB),
        page_bytes=get.number("page-size-bytes", MIB),
        page_rows=get.number("page-row-limit", 20_000),
        dictionary_bytes=get.number("dict-size-bytes", 2 * MIB),
        data_page_version="2.0" if get.text("page-version", "v1") == "v2" else "1.0",
        no_dictionary=get.columns("dict-encoding-enabled.column.", "false"),
        no_statistics=get.columns("stats-enabled.column.", "false"),
        bloom_filters={
            column: get.bloom(column)
            for column in get.columns("bloom-filter-enabled.column.", "true")
        },
    )


def _level(codec: str, given: str | None) -> int | None:
    if codec not in _HIGHEST:
        return None
    if given is not None:
        return min(int(given), _HIGHEST[codec])
    return _ZSTD_LEVEL if codec == "zstd" else None


@dataclass(frozen=True)
class _Prefixed:
    properties: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        return self.properties.get("write.parquet." + name, default)

    def number(self, name: str, default: int) -> int:
        return int(self.text(name, str(default)))

    def columns(self, prefix: str, wanted: str) -> frozenset[str]:
        """Columns whose per-column switch says `wanted`."""
        start = "write.parquet." + prefix
        return frozenset(
            name.removeprefix(start)
            for name, value in self.properties.items()
            if name.startswith(start) and value.lower() == wanted
        )

    def bloom(self, column: str) -> dict[str, Any]:
        """`ndv` and `fpp` where the table sets them; Arrow's defaults otherwise."""
        fpp = self.text(f"bloom-filter-fpp.column.{column}", "0.01")
        ndv = self.text(f"bloom-filter-ndv.column.{column}", "")
        return {"fpp": float(fpp), **({"ndv": int(ndv)} if ndv else {})}


def _all_but(leaves: Sequence[str], without: frozenset[str]) -> bool | list[str]:
    return [leaf for leaf in leaves if leaf not in without] if without else True
