"""Properties of a table and its archive: how far their rounds are (`commits.archive_rounds`)."""

from __future__ import annotations

ARCHIVE_OF = "firnline.archive-of"  # property of an archive: key and name of its source
SEAL = "firnline.archive-seal"  # of an archive: the fleet's signature that this archive is of it
ROUND = "firnline.archive-round"  # of both: the last round that came in, or left
FILES = "firnline.archive-files"  # of an archive: how many copies that round has
GIVEN_UP = "firnline.archive-given-up"  # of the table: the last round that will not leave
SETTLED = "firnline.archive-settled"  # of an archive: the last round whose sources have left
MARKS = (ARCHIVE_OF, SEAL, ROUND, FILES, GIVEN_UP, SETTLED)
