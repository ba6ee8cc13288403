"""Reasons why orphan files are left where they are."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode


class OrphanRefusal(ReasonCode):
    """Reasons why a table's location is not cleaned."""

    GC_DISABLED = (
        "gc_disabled",
        "`gc.enabled=false`: another table may share the files.",
        "disabled by gc.enabled=false",
    )
    UNCLEAR_LOCATION = (
        "unclear_location",
        "The location is the root of a bucket, or the table's metadata is outside of it.",
        "its location may contain files of other tables",
    )
    NOT_DATED = (
        "not_dated",
        "The storage does not return modification times.",
        "its storage returns no modification times",
    )
    TOO_MANY = (
        "too_many_orphans",
        "More than 100 files, and more than half of those that are old enough, would be "
        "orphans. Check the table's location.",
        "more than half of its files would be orphans: check the location",
    )
    INVENTORY = (
        "inventory_unusable",
        "`firnline.orphans.inventory` is no inventory of the table's bucket.",
        "firnline.orphans.inventory is no inventory of its bucket",
    )
