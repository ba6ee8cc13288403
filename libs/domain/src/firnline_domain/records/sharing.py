"""Why nothing is removed from a table that may share its files with another one."""

from __future__ import annotations

from firnline_domain.reason_code import ReasonCode


class SharingRefusal(ReasonCode):
    """Why no file of a table may be removed, moved or withdrawn, and no snapshot expired."""

    SHARED_IDENTITY = (
        "shared_identity",
        "another table of the known catalogs has the same uuid, so both may have the same files",
        "another table has its uuid, and may have its files",
    )
    SHARED_LOCATION = (
        "shared_location",
        "another table has files in, above or below one of the table's locations",
        "another table has files in its locations",
    )
    NEIGHBOURS_UNKNOWN = (
        "neighbours_unknown",
        "a catalog does not list or load all of its tables, so another one may have the same files",
        "its catalog does not show whether another table has the same files",
    )
