"""Why orphan files are left where they are."""

from __future__ import annotations

from firnline_domain.reason_code import ReasonCode


class OrphanRefusal(ReasonCode):
    """Why a table's location is not cleaned."""

    GC_DISABLED = (
        "gc_disabled",
        "`gc.enabled=false`: another table may have the same files",
        "forbidden by gc.enabled=false",
    )
    UNCLEAR_LOCATION = (
        "unclear_location",
        "the location is the root of a bucket, or the table's metadata lies outside of it",
        "its location does not say whose files lie there",
    )
    NOT_DATED = (
        "not_dated",
        "the storage does not say when a file was written",
        "its storage dates no files",
    )
    TOO_MANY = (
        "too_many_orphans",
        "more than 100 files, and more than half of those that are old enough, would be orphans",
        "more than half of its files would be orphans: a person has to look",
    )
    INVENTORY = (
        "inventory_unusable",
        "`firnline.orphans.inventory` names no inventory of the bucket that the table lies in",
        "its inventory (firnline.orphans.inventory) is none of its bucket",
    )
