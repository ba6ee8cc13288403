"""Facts about one table, beyond the counters that the policy decides by."""

from __future__ import annotations

from firnline_domain.base.values import Value, field


class DeleteFacts(Value):
    """Live delete files. `oldest_ms`: commit of the oldest equality delete. `at_least`: its
    snapshot is not retained, and the time is that of the oldest one which is. `dangling` None: not
    examined, or there are none to examine."""

    equality_files: int = 0
    equality_records: int = 0
    position_files: int = 0
    vectors: int = 0
    bytes: int = 0
    oldest_ms: int | None = None
    at_least: bool = False
    dangling: int | None = None
    equality_specs: tuple[int, ...] = ()  # that equality deletes were written under

    @property
    def files(self) -> int:
        """Return the number of delete files of all kinds; vectors share files."""
        return self.equality_files + self.position_files + self.vectors


class Pace(Value):
    """The amount that writers add in a day, by the snapshots that are retained."""

    commits: float = 0.0
    files: float = 0.0
    equality_deletes: float = 0.0  # files
    bytes: float = 0.0


class AssessedFacts(Value):
    """Facts of one table. `metadata_bytes` None: not known. `repeated` None: not examined."""

    format_version: int
    snapshots: int
    oldest_snapshot_ms: int | None
    newest_snapshot_ms: int | None
    manifests: int = 0
    manifest_bytes: int = 0
    metadata_bytes: int | None = None
    data_files: int = 0
    data_bytes: int = 0
    partitions: int = 0
    deletes: DeleteFacts = DeleteFacts()
    repeated: int | None = None  # files that are in the table twice
    live_specs: tuple[int, ...] = ()  # that data files were written under
    formats: dict[str, int] = field(default_factory=dict)  # data files by format
    types: tuple[str, ...] = ()  # of columns, that only v3 has
    pace: Pace = Pace()
    uuid: str = ""
    outside_files: int = 0  # data and delete files that are not below its location
    schemeless_files: int = 0  # whose path has no scheme
    unready_writers: tuple[str, ...] = ()  # of the last week, not known to write v3
    uncounted: str = ""  # why its manifests were not read; the numbers are of its summary
