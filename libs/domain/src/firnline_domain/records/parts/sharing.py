"""Reasons why nothing is removed from a table that may share its files with another one."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode


class SharingRefusal(ReasonCode):
    """Reasons why no file of a table may be removed, moved or withdrawn, and no snapshot
    expired."""

    SHARED_IDENTITY = (
        "shared_identity",
        "Another table of the configured catalogs has the same UUID, so both may share files.",
        "another table has the same UUID and may share its files",
    )
    SHARED_LOCATION = (
        "shared_location",
        "Another table has files in, above or below one of the table's locations.",
        "another table has files in its locations",
    )
    NEIGHBOURS_UNKNOWN = (
        "neighbours_unknown",
        "A catalog does not list or load all of its tables, so another table may share the "
        "files. Grant Firnline the right to list all namespaces and load all tables.",
        "its catalog does not list all tables, so another one may share the files",
    )
