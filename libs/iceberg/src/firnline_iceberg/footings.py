"""What a commit's manifests were written upon, and whether a later head leaves them as good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Footing:
    """A head. `manifests`: path -> lowest data sequence number in it, as the manifest list has it.
    `specs`: ids of the table's partition specs, the default one last."""

    snapshot_id: int
    last_sequence_number: int  # the table's
    manifests: Mapping[str, int]
    specs: tuple[int, ...]

    def bears(self, later: Footing) -> bool:
        """Whether manifests that were written upon this head are what Iceberg would write upon
        the later one.

        Nothing was taken out: each manifest is still there. And what has come is younger than
        this head, so that no delete file was dropped here by its age that would be kept there
        (issue 10312). Of v1 tables, where all is 0, it is never said.
        """
        came = (number for path, number in later.manifests.items() if path not in self.manifests)
        return (
            self.specs == later.specs
            and self.manifests.keys() <= later.manifests.keys()
            and all(number > self.last_sequence_number for number in came)
        )
