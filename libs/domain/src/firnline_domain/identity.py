"""Name things: tables, scopes, buckets, paths, task ids."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from itertools import combinations, pairwise
from urllib.parse import quote, unquote

from firnline_domain.base.values import Signed, Value

MAIN = "main"
CATALOG = "lake"  # of a fleet that names none
PREFIX_HEADER = "X-Firnline-Prefix"  # by which a client of ours asks a gateway for a prefix
_CATALOG = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
# Characters of a partition's text. Object stores take 1,024 bytes for the whole name of a file.
MAX_PARTITION = 2_000
SHOWN = 100  # of a longer one
MAX_DOTS = 5  # of a name that is read in more than one way: 32 of them
_LEVEL = re.compile(r'"(?:[^"]|"")*"|`(?:[^`]|``)*`|[^."`]+')
DIGEST = "sha256:"  # no JSON begins so


class TableName(Value):
    """A table: its `key` says everywhere which one it is, its name is for people and the catalog.

    A uuid is not enough: branches of Nessie and catalogs that were restored from a copy have it
    twice (docs/decisions/0037).
    """

    uuid: str
    namespace: tuple[str, ...]
    name: str
    catalog: str = CATALOG  # the name of its connection
    prefix: str = ""  # of the REST catalog's paths, as `canonical_prefix` spells it

    @property
    def key(self) -> str:
        """Return the key of state, records and leases: no two tables of a deployment have the same
        one. The uuid alone in the catalog `lake` without a prefix, else `uuid@archive`,
        `uuid@lake+main`: what comes after the last @ holds no / or :, which others put behind a
        key."""
        if self.prefix:
            return f"{self.uuid}@{self.catalog}+{self.prefix.replace('/', '+')}"
        if self.catalog != CATALOG or "@" in self.uuid:
            return f"{self.uuid}@{self.catalog}"
        return self.uuid

    @property
    def dotted_name(self) -> str:
        """Return `namespace.name`, as it is typed."""
        return ".".join((*self.namespace, self.name))

    @property
    def path(self) -> tuple[str, ...]:
        """Return namespace levels and name."""
        return (*self.namespace, self.name)

    @property
    def catalog_path(self) -> str:
        """Return the table's catalog: `lake`, or `lake/main`. Tables of one path have one list of
        names."""
        return f"{self.catalog}/{self.prefix}" if self.prefix else self.catalog

    @property
    def full_name(self) -> str:
        """Return `lake:namespace.name`, for pages that show several catalogs."""
        return f"{self.catalog_path}:{self.dotted_name}"


def is_catalog_name(name: str) -> bool:
    """Return True for a name that fits unescaped into a key, a path of the gateway and Spark's
    settings."""
    return _CATALOG.fullmatch(name) is not None


def canonical_prefix(raw: str) -> str:
    """Return the one spelling of a prefix of a REST catalog's paths, fit to be used in a path
    again.

    Clients send a prefix as in their catalog's config, or escaped once more by a library or a
    proxy: `main|wh` and `main%7cwh` are `main%7Cwh`. Each segment is escaped by itself: `a/b` has
    two, `a%2Fb` has one."""
    return "/".join(quote(unquote(one), safe="") for one in raw.split("/") if one)


def split_name(text: str) -> tuple[str, str]:
    """Split `lake/dev:shop.orders` into the catalog's path and the dotted name; the path is "" if
    there is none. Text before a colon that is no path belongs to the name."""
    path, colon, dotted = text.partition(":")
    catalog, slash, prefix = path.partition("/")
    if not colon or not is_catalog_name(catalog):
        return "", text
    return f"{catalog}{slash}{canonical_prefix(prefix)}", dotted


def levels_of(text: str) -> tuple[str, ...]:
    """Return the levels of a dotted name; one with a dot in it stands in quotes, as SQL has them:
    `shop."eu.west".orders`. Quotes that are none belong to the name. Raises ValueError if a
    level is empty."""
    found = _quoted_levels(text) or tuple(text.split("."))
    if not all(found):
        raise ValueError(f"{text}: a name is levels with dots between them, namespace.name")
    return found


def _quoted_levels(text: str) -> tuple[str, ...]:
    """Return the levels, or () if quotes do not end, or stand within a level."""
    levels, at = [], 0
    while found := _LEVEL.match(text, at):
        part, at = found[0], found.end()
        mark = part[0] if part[0] in '"`' else ""
        levels.append(part[1:-1].replace(mark * 2, mark) if mark else part)
        if at == len(text):
            return tuple(levels)
        if text[at] != ".":
            return ()
        at += 1
    return ()


def readings_of(text: str) -> Iterator[tuple[str, ...]]:
    """Yield every way to read a dotted name, first the one in which each dot parts two levels.
    What people see of a name has no quotes, so they type none. Raises ValueError."""
    first, plain = levels_of(text), tuple(text.split("."))
    yield first
    if first != plain and all(plain):
        yield plain
    if first != plain or len(plain) - 1 > MAX_DOTS:
        return
    for cuts in range(len(plain) - 2, 0, -1):
        for ends in combinations(range(1, len(plain)), cuts):
            yield tuple(".".join(plain[a:b]) for a, b in pairwise((0, *ends, len(plain))))


class Scope(Value, order=True):
    """One partition of one spec: what a delete applies to and what a task rewrites.

    `partition` is the canonical JSON text of the partition values in spec-field order:
    `[]` where the spec is unpartitioned, `["2026-01-01",3]` otherwise (Iceberg's single-value
    JSON; spec, appendix "JSON single-value serialization").
    """

    spec_id: Signed
    partition: str

    @property
    def is_abbreviated(self) -> bool:
        """True if `counted_scope` has put a digest in the partition's place: counted, never
        rewritten."""
        return self.partition.startswith(DIGEST)

    @property
    def counted_scope(self) -> Scope:
        """Return the scope that its files are counted under. A value of a megabyte would be in
        every key, record and line of the log that names its partition."""
        if len(self.partition) <= MAX_PARTITION:
            return self
        digest = hashlib.sha256(self.partition.encode(errors="surrogatepass")).hexdigest()
        return Scope(self.spec_id, f"{DIGEST}{digest} {self.partition[:SHOWN]}")

    @property
    def is_unpartitioned(self) -> bool:
        """True if the partition tuple has no value; its equality deletes are global."""
        return self.partition == "[]"

    @property
    def label(self) -> str:
        """Return the scope to show: `whole table`, `2026-01-01 / 3`; never nothing."""
        if self.is_unpartitioned:
            return "whole table"
        try:
            values = json.loads(self.partition)
        except ValueError:
            return self.partition
        if not isinstance(values, list):
            return self.partition
        return " / ".join("null" if value is None else str(value) or '""' for value in values)


def bucket_of(table_key: str, buckets: int) -> int:
    """Return the partition of every record of a table, in every topic (partitioner hazard, H17: set
    by every producer)."""
    return zlib.crc32(table_key.encode()) % buckets


def normal_path(path: str) -> str:
    """Return the one spelling of a file's path: Java writes `file:/x`, PyIceberg `file:///x`;
    Hadoop writes `s3a://` for `s3://` of Iceberg's own client."""
    if path.startswith(("s3a://", "s3n://")):
        return "s3://" + path[6:]
    if not path.startswith("file:"):
        return path
    return "file:///" + path.removeprefix("file:").lstrip("/")


def task_id(
    table_key: str,
    ref: str,
    scope: str,
    action: str,
    trigger_snapshot_id: int,
    min_dead_ratio: float = 0.0,
) -> str:
    """Return the id of a task, the same at every emission (architecture, rule 6).

    `attempt` is not part of it: a retry is the same task."""
    what = (action, str(trigger_snapshot_id), str(min_dead_ratio))
    text = "\x1f".join((table_key, ref, scope, *what))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def lease_owner(slot: str, life: str) -> str:
    """Return the owner of all leases of one life; each task adds a name of its own behind a
    slash."""
    return f"{slot}#{life}"


def takes_over(owner: str, held_by: str) -> bool:
    """Return True if `owner` is another life of the slot that `held_by` had."""
    slot, sign, life = owner.partition("/")[0].partition("#")
    their_slot, their_sign, their_life = held_by.partition("/")[0].partition("#")
    return bool(sign and their_sign) and slot == their_slot and life != their_life
