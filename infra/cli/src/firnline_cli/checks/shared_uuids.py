"""Finds tables that two catalogs of one deployment have with one uuid: registered or restored
twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from firnline_cli.checks.catalog import PATIENCE_S, CatalogChecks
from firnline_cli.checks.findings import Check, CheckAnswer, NotTried, remark

MAX_LOADED = 20  # names that several catalogs have: a restored copy keeps them


def shared_uuid_checks(catalogs: Sequence[CatalogChecks]) -> Iterator[Check]:
    """Yield the check; nothing if there is only one catalog."""
    if len(catalogs) > 1:
        needs = tuple(f"{one.name}.list" for one in catalogs)
        tried = "compare uuids of tables with one name"
        yield Check("catalogs.uuids", tried, lambda: compare_uuids(catalogs), needs, PATIENCE_S)


def compare_uuids(catalogs: Sequence[CatalogChecks]) -> CheckAnswer | str:
    """Compare the uuids of tables that have one name in several catalogs. Raises NotTried,
    Failed."""
    places = defaultdict[tuple[str, ...], list[CatalogChecks]](list)
    for catalog in catalogs:
        for name in catalog.listed:
            places[name].append(catalog)
    common = {name: found for name, found in places.items() if len(found) > 1}
    if not common:
        raise NotTried("no name is in two of them")
    looked = dict(list(common.items())[:MAX_LOADED])
    shared = [said for name, found in looked.items() for said in _tables_sharing_files(name, found)]
    many = f"{len(looked)} of {len(common)} names that several catalogs have"
    if not shared:
        return f"{many}: none shares a uuid, or all but one keep their files"
    return remark(
        f"{many}: one uuid have {'; '.join(shared)}",
        "they may share files: Firnline removes no file of either (shared_identity), but an "
        "expiry by another engine may. Drop one without purging it, or set gc.enabled=false in all "
        "but one against other engines (docs/deploy/several-catalogs.md)",
    )


def _tables_sharing_files(
    name: tuple[str, ...], catalogs: Sequence[CatalogChecks]
) -> Iterator[str]:
    """Yield the tables of that name with one uuid, if more than one of them may remove files."""
    from firnline_domain.policy.table_action.snapshot_retention import GC_ENABLED

    by_uuid = defaultdict[str, list[str]](list)
    for one in catalogs:
        table = one.load_listed(name)
        if table is not None and table.properties.get(GC_ENABLED, "true").lower() == "true":
            by_uuid[table.identity.uuid].append(f"{one.connection.name}:{'.'.join(name)}")
    yield from (" and ".join(found) for found in by_uuid.values() if len(found) > 1)
