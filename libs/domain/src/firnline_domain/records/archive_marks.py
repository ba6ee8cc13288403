"""Properties by which a table and its archive say how far their rounds are (`commits.archives`)."""

from __future__ import annotations

ARCHIVE_OF = "firnline.archive-of"  # property of an archive: uuid of the table that it is of
ROUND = "firnline.archive-round"  # of both: the last round that came in, or left
FILES = "firnline.archive-files"  # of an archive: how many copies that round has
GIVEN_UP = "firnline.archive-given-up"  # of the table: the last round that will not leave
MARKS = (ARCHIVE_OF, ROUND, FILES, GIVEN_UP)
