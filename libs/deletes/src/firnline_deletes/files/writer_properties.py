"""`write.parquet.*` table properties, as far as Arrow can do them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from firnline_deletes.unsupported_files import UnsupportedFile

MIB = 1024 * 1024
_CODECS = {
    "zstd": "zstd",
    "gzip": "gzip",
    "snappy": "snappy",
    "lz4": "lz4",
    "lz4_raw": "lz4",  # Arrow writes no other
    "brotli": "brotli",
    "uncompressed": "none",
}
_HIGHEST = {"zstd": 22, "gzip": 9, "brotli": 11}  # level that each knows
_ZSTD_LEVEL = 3  # parquet-java's default; Arrow's own is 1
_NDV = 1 << 20  # Arrow's default
_BLOCKS = 8  # that a value sets a bit in (Parquet's split-block bloom filter)
_ALL_BLOOMS = 256 * MIB  # of a row group's filters, which a worker holds at once


@dataclass(frozen=True)
class ParquetProperties:
    """Encoding of outputs. Sizes in bytes."""

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
    bloom_bytes: int = MIB  # of one filter

    def writer_options(
        self, leaves: Mapping[str, pa.DataType], plain: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """Return the arguments of `pyarrow.parquet.ParquetWriter`; `leaves` are dotted column
        paths, `plain` those for which a dictionary does not pay. Filters of absent columns, and of
        booleans, for which Parquet has none, are left out."""
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
        filtered = {
            leaf: how
            for leaf, how in self.bloom_filters.items()
            if leaf in leaves and not pa.types.is_boolean(leaves[leaf])
        }
        if filtered:
            most = min(self.bloom_bytes, _ALL_BLOOMS // len(filtered))
            options["bloom_filter_options"] = {
                leaf: _bloom_options(how, most) for leaf, how in filtered.items()
            }
        return options


def _bloom_options(how: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    """Return what Arrow makes a filter of at most that many bytes of, as Iceberg's writer does: for
    fewer values than there may be, if need be, so that more of them are found by mistake."""
    each = -math.log(1 - how["fpp"] ** (1 / _BLOCKS))  # values in a byte
    whole = 1 << (max_bytes.bit_length() - 1)  # Arrow's filters have a power of two
    return {"fpp": how["fpp"], "ndv": max(1, min(how.get("ndv", _NDV), int(whole * each)))}


def from_table(properties: Mapping[str, str]) -> ParquetProperties:
    """Read a table's properties; absent ones keep Iceberg's defaults. Refused: codec.

    Raises ValueError for a number that is none. Callers that read a foreign table remove those
    before, and values without sense (`firnline_domain.settings.parquet.readable_properties`).

    A table without a codec gets zstd, the default of every table created since Iceberg 1.4."""
    get = _Prefixed(properties)
    name = get.text_value("compression-codec", "zstd").lower()
    if name not in _CODECS:
        raise UnsupportedFile("codec", name)
    return ParquetProperties(
        codec=_CODECS[name],
        level=_compression_level(name, properties.get("write.parquet.compression-level")),
        row_group_bytes=get.number_value("row-group-size-bytes", 128 * MIB),
        page_bytes=get.number_value("page-size-bytes", MIB),
        page_rows=get.number_value("page-row-limit", 20_000),
        dictionary_bytes=get.number_value("dict-size-bytes", 2 * MIB),
        data_page_version="2.0" if get.text_value("page-version", "v1").lower() == "v2" else "1.0",
        no_dictionary=get.columns_with("dict-encoding-enabled.column.", "false"),
        no_statistics=get.columns_with("stats-enabled.column.", "false"),
        bloom_filters={
            column: get.bloom_options(column)
            for column in get.columns_with("bloom-filter-enabled.column.", "true")
        },
        bloom_bytes=get.number_value("bloom-filter-max-bytes", MIB),
    )


def _compression_level(codec: str, given: str | None) -> int | None:
    if codec not in _HIGHEST:
        return None
    if given is not None:
        return min(int(given), _HIGHEST[codec])
    return _ZSTD_LEVEL if codec == "zstd" else None


@dataclass(frozen=True)
class _Prefixed:
    properties: Mapping[str, str]

    def text_value(self, name: str, default: str) -> str:
        return self.properties.get("write.parquet." + name, default)

    def number_value(self, name: str, default: int) -> int:
        return int(self.text_value(name, str(default)))

    def columns_with(self, prefix: str, wanted: str) -> frozenset[str]:
        """Return the columns whose per-column switch is `wanted`."""
        start = "write.parquet." + prefix
        return frozenset(
            name.removeprefix(start)
            for name, value in self.properties.items()
            if name.startswith(start) and value.lower() == wanted
        )

    def bloom_options(self, column: str) -> dict[str, Any]:
        """Return `ndv` and `fpp` where the table sets them; Arrow's defaults otherwise."""
        fpp = self.text_value(f"bloom-filter-fpp.column.{column}", "0.01")
        ndv = self.text_value(f"bloom-filter-ndv.column.{column}", "")
        return {"fpp": float(fpp), **({"ndv": int(ndv)} if ndv else {})}


def _all_but(leaves: Mapping[str, pa.DataType], without: frozenset[str]) -> bool | list[str]:
    return [leaf for leaf in leaves if leaf not in without] if without else True
