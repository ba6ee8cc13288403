"""Decide when maintenance is worth its cost: as soon as readers have paid as much for the debt.

Nobody knows how often a table will be read. Whoever buys when the rent paid has reached the price
never pays more than twice what was best in hindsight (the ski-rental rule). Rent is what scans pay
for the debt; price is the CPU of the rewrite.

Counters do not say which delete reaches which file. An equality delete reaches every older file of
its partition: all but, on average, half of the fragments that came with it. Position deletes reach
as many rows as they have records."""

from __future__ import annotations

from enum import StrEnum

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.file_sizes import merged_files, spared_by_merge, taken_by_merge
from firnline_domain.counters.state.work import KEY_SHARE
from firnline_domain.policy.cost_model import FIRNLINE, Work
from firnline_domain.policy.policy_input import PolicyInput, once_per_input
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.settings.thresholds import Thresholds

FAR_MS = 10**15  # later than any clock
GRID_MS = 60_000  # reconciling reads all partitions: once a minute at most


class ReadCost(Value):
    """CPU seconds of whoever reads through Iceberg's own reader."""

    scan_s: float = 1e-8  # per byte of a data file
    open_s: float = 0.01  # per file
    load_s: float = 1.6e-6  # per equality delete and data file that it reaches (bench: 1.7e-6)
    position_s: float = 2e-7  # per position


READ_COST = ReadCost()


class Burden(Value):
    """Cost of debt for one scan."""

    files_spared: float  # that a merge of the fragments would spare
    equality_files: float  # global ones too
    delete_records: float  # in those of the partition
    delete_loads: float  # equality deletes times the data files they reach
    position_files: float  # vectors too
    positions: float
    dead_bytes: float  # of rows that position deletes mask
    tidy_s: float  # of a scan without the debt

    def deletes_s(self) -> float:
        """Return a scan's seconds for equality deletes."""
        return self.delete_loads * READ_COST.load_s + self.equality_files * READ_COST.open_s

    def positions_s(self) -> float:
        """Return a scan's seconds for position deletes and the rows they mask."""
        masked = self.positions * READ_COST.position_s + self.dead_bytes * READ_COST.scan_s
        return masked + self.position_files * READ_COST.open_s

    def files_s(self) -> float:
        """Return the seconds that a scan takes for files that a merge would save."""
        return self.files_spared * READ_COST.open_s

    def total_seconds(self) -> float:
        """Return the seconds that a scan takes for all of the burden: deletes, positions and
        files."""
        return self.deletes_s() + self.positions_s() + self.files_s()

    @property
    def opens(self) -> float:
        """Return the number of files that a scan opens because of the burden."""
        return self.files_spared + self.equality_files + self.position_files

    @property
    def amplification(self) -> float:
        """Return the time of a scan as a multiple of that of a tidy partition; 1 = there is no
        debt."""
        return 1 + self.total_seconds() / self.tidy_s if self.tidy_s > 0 else 1.0

    def grow_to(self, debt: Debt, grown: Debt) -> Burden:
        """Return what has come since the last rewrite, each kind by itself: one equality delete
        beside a thousand vectors that a conversion has left is all of its kind, and no
        thousandth."""
        if grown == debt:
            return self  # mostly: the last rewrite has left nothing
        deletes = _share_of(
            grown.equality_deletes + grown.global_deletes,
            debt.equality_deletes + debt.global_deletes,
        )
        masks = _share_of(grown.position_deletes, debt.position_deletes)
        return replace(
            self,
            files_spared=self.files_spared * _share_of(grown.fragments, debt.fragments),
            equality_files=self.equality_files * deletes,
            delete_records=self.delete_records * deletes,
            delete_loads=self.delete_loads * deletes,
            position_files=self.position_files * masks,
            positions=self.positions * masks,
            dead_bytes=self.dead_bytes * masks,
        )


def _share_of(part: int, whole: int) -> float:
    return part / max(whole, 1)


def burden_of(holds: FileTally, target_bytes: int, global_deletes: int = 0) -> Burden:
    """Return the burden of a partition. Of global deletes only the number of files is known
    here."""
    data, small, deletes = holds.all_data, holds.fragments, holds.equality_deletes
    reached = max(data.files - small.files / 2, 0.0)
    positions = holds.position_deletes + holds.deletion_vectors
    row = data.bytes / data.records if data.records > 0 else 0.0
    dead = min(positions.records * row, float(max(data.bytes, 0)))
    spared = small.files - merged_files(small, target_bytes)
    return Burden(
        files_spared=spared,
        equality_files=deletes.files + global_deletes,
        delete_records=deletes.records,
        delete_loads=deletes.records * reached,
        position_files=positions.files,
        positions=positions.records,
        dead_bytes=dead,
        tidy_s=max(data.bytes - dead, 0.0) * READ_COST.scan_s
        + (data.files - spared) * READ_COST.open_s,
    )


class Action(StrEnum):
    """Actions on a partition's debt (docs/get-started/concepts.md)."""

    COMPACT = "compact"  # every file that an equality delete reaches is rewritten
    CONVERT = "convert"  # equality deletes of larger files become positions
    MERGE = "merge"  # fragments and undersized files fill a file of the target size
    FULL = "full"  # every file is rewritten
    SORT = "sort"  # files whose keys overlap most are sorted together


class Offer(Value):
    """One way to be rid of debt. `spared_s`: CPU seconds per scan."""

    action: Action
    work: Work
    price_s: float
    spared_s: float

    @property
    def gain(self) -> float:
        """Return CPU seconds spared per scan and CPU second spent."""
        return _gain_ratio(self.spared_s, self.price_s)


def _gain_ratio(spared_s: float, price_s: float) -> float:
    return spared_s / price_s if price_s > 0 else 0.0


def paid_at_ms(
    price_s: float, spared_s: float, since_ms: int, settings: Thresholds, head_start: float = 0.0
) -> int:
    """Return when scans will have paid the price, should the debt stay as it is. It has grown since
    `since_ms`, evenly as far as is known: half of it was paid on average."""
    paid_per_hour = spared_s / 2 * settings.reads_per_hour
    if paid_per_hour <= 0:
        return FAR_MS
    wait_ms = settings.payback * price_s / paid_per_hour * HOUR_MS
    paid_ms = since_ms + int(min(wait_ms, FAR_MS) * (1 - head_start))
    return -(-paid_ms // GRID_MS) * GRID_MS


def list_offers(holds: FileTally, target_bytes: int, global_deletes: int = 0) -> list[Offer]:
    """List the actions that spare readers something, with work and gain, the best gain first, at a
    table of which nothing was learned."""
    burden = burden_of(holds, target_bytes, global_deletes)
    merge_s = spared_by_merge(holds, target_bytes) * READ_COST.open_s
    conversion = _conversion_work(holds, target_bytes, KEY_SHARE)
    works = (
        (Action.COMPACT, compaction_work(holds, global_deletes), burden.total_seconds()),
        (Action.CONVERT, conversion if _is_convertible(holds) else None, _converted_s(burden)),
        (Action.MERGE, _merge_work(holds, target_bytes), merge_s),
    )
    offered = [
        Offer(action, work, FIRNLINE.cpu_s(work), spared_s)
        for action, work, spared_s in works
        if work is not None and spared_s > 0
    ]
    return sorted(offered, key=lambda one: -one.gain)


def compaction_work(holds: FileTally, global_deletes: int) -> Work:
    """Return an upper bound: how many rows are left is not known before."""
    files, taken = _reached_data(holds, global_deletes)
    deletes = holds.equality_deletes
    return Work(taken + deletes.bytes, taken, deletes.records, files=files + holds.delete_files)


def _reached_data(holds: FileTally, global_deletes: int) -> tuple[float, float]:
    """Return number and bytes of the files with deletes and of the small files. A vector is of one
    file; any other delete may reach all."""
    small, vectors = holds.fragments, holds.deletion_vectors.files
    if holds.equality_deletes.files + holds.position_deletes.files + global_deletes > 0:
        data = holds.all_data
        return data.files, data.bytes
    if vectors == 0:
        return small.files, small.bytes
    data = holds.all_data
    share = min(vectors / data.files, 1.0) if data.files > 0 else 0.0
    files = small.files + min(vectors, data.files - small.files)
    return files, small.bytes + (data.bytes - small.bytes) * share


def _conversion_work(holds: FileTally, target_bytes: int, key_share: float) -> Work:
    """Return the work of reading the keys of all larger files, where equality deletes are; small
    ones, of which all columns are few bytes, are rewritten at once."""
    deletes, taken = holds.equality_deletes, taken_by_merge(holds, target_bytes)
    small = max(taken.bytes, holds.fragments.bytes)
    keys = (holds.all_data.bytes - small) * key_share if deletes.files else 0.0
    rewritten = max(taken.files, holds.fragments.files)
    return Work(
        small + keys + deletes.bytes,
        small,
        deletes.records,
        files=rewritten + deletes.files,
        converted=holds.all_data.files - rewritten if deletes.files else 0.0,
    )


def _is_convertible(holds: FileTally) -> bool:
    return holds.equality_deletes.files > 0 and holds.data_files > holds.fragments.files


def _converted_s(burden: Burden) -> float:
    """Return the seconds that a conversion saves each scan: equality deletes are removed, and at
    most as many positions added."""
    return burden.deletes_s() + burden.files_s() - burden.delete_records * READ_COST.position_s


def _merge_work(holds: FileTally, target_bytes: int) -> Work | None:
    """Return the work of a merge of small files; None if there are equality deletes, which it would
    not remove, or less than two small files."""
    taken = taken_by_merge(holds, target_bytes)
    if holds.equality_deletes.files or taken.files < 2:
        return None
    return Work(taken.bytes, taken.bytes, files=taken.files)


class CostBenefit(Value):
    """Cost and saving of a partition's rewrite, and when it is worth it."""

    work: Work
    price_s: float
    spared_s: float  # per scan, of what has come since the last rewrite
    amplification: float  # of a scan
    since_ms: int = 0  # when the debt began
    paid_ms: int = FAR_MS  # when readers have paid the price
    from_ms: int = 0  # when it may be ordered for other reasons
    spared_opens: float = 0.0  # files that a scan need not open any more

    @property
    def gain(self) -> float:
        """Return CPU seconds spared per scan and CPU second spent."""
        return _gain_ratio(self.spared_s, self.price_s)

    @property
    def gb_hours(self) -> float:
        """Memory held while it runs, times hours."""
        return FIRNLINE.held_gb_hours(self.price_s)

    @property
    def paid_at(self) -> int | None:
        """Return `paid_ms`; None if readers never pay."""
        return self.paid_ms if self.paid_ms < FAR_MS else None

    def payback_ratio(self, now_ms: int) -> float:
        """Return how many times readers have paid the price. It ranks rewrites by what they spare
        for what they cost; and, growing with every hour, it lets none of them starve."""
        if self.paid_at is None:
            return 0.0
        return max(now_ms - self.since_ms, 0) / max(self.paid_ms - self.since_ms, 1)


@once_per_input
def weigh_debt(given: PolicyInput) -> CostBenefit:
    """Weigh an order for the debt. Only what has grown since the last rewrite counts."""
    return weigh_compaction(given) if given.takes_all else weigh_minor(given)


def weigh_compaction(given: PolicyInput) -> CostBenefit:
    """Weigh a rewrite of every file that a delete reaches."""
    debt, holds = given.debt, given.holds
    burden = burden_of(holds, given.settings.target_bytes, debt.global_deletes)
    came = burden.grow_to(debt, given.new_debt)
    work = compaction_work(holds, debt.global_deletes)
    spared_s, amplification = came.total_seconds(), burden.amplification
    return _weigh_by_age(given, work, spared_s, amplification, came.opens, is_conversion=False)


def weigh_minor(given: PolicyInput) -> CostBenefit:
    """Weigh an order that rewrites no larger file: it merges small ones, and turns equality deletes
    and many files of positions into one for each data file."""
    holds, target = given.holds, given.settings.target_bytes
    converts, burden = holds.equality_deletes.files > 0, burden_of(holds, target)
    work = _conversion_work(holds, target, given.costs.key_share)
    joined = given.joined_positions if given.settings.may_convert else 0
    came = burden.grow_to(given.debt, given.new_debt)
    spared_s = _converted_s(came) + joined * READ_COST.open_s
    opens = came.files_spared + came.equality_files + joined
    return _weigh_by_age(given, work, spared_s, burden.amplification, opens, converts)


def _weigh_by_age(
    given: PolicyInput,
    work: Work,
    spared_s: float,
    amplification: float,
    opens: float,
    is_conversion: bool,
) -> CostBenefit:
    """Weigh work on the debt by its age; leave to order for other reasons at any time, if the work
    is the same later."""
    learned, debt_work = given.costs.factors, given.partition.work
    factor = learned.conversions if is_conversion else learned.rewrites
    since_ms, head_start = debt_work.debt_since_ms, debt_work.head_start
    weighed = weigh_work(given, since_ms, work, spared_s, amplification, opens, factor, head_start)
    return replace(weighed, from_ms=0) if _is_done_once(given) else weighed


def _is_done_once(given: PolicyInput) -> bool:
    """Return True if the work is the same now and later: fragments fill a file of the target size,
    and there is nothing else to do. Its bytes will not be merged again, and `max-wait-ms` has them
    merged in any case. To wait spares work only where more would come to the same files: what is
    merged below the target size, and keys, are read again for what comes next."""
    holds, target = given.holds, given.settings.target_bytes
    deletes = holds.delete_files + given.debt.global_deletes
    return deletes == 0 and holds.fragments.bytes >= target


def weigh_merge(given: PolicyInput) -> CostBenefit | None:
    """Weigh a merge; None where it would take nothing, there are equality deletes to be applied, or
    it is not known yet since when its files are there."""
    holds, target = given.holds, given.settings.target_bytes
    work, files = _merge_work(holds, target), spared_by_merge(holds, target)
    since_ms = given.partition.work.undersized_since_ms
    if work is None or files < 1 or since_ms is None:
        return None
    amplification = burden_of(holds, target).amplification
    spared_s, head_start = files * READ_COST.open_s, given.partition.work.head_start
    factor = given.costs.factors.rewrites
    return weigh_work(given, since_ms, work, spared_s, amplification, files, factor, head_start)


def weigh_work(
    given: PolicyInput,
    since_ms: int | None,
    work: Work,
    spared_s: float,
    amplification: float,
    opens: float,
    factor: float,
    head_start: float = 0.0,
) -> CostBenefit:
    """Return cost and saving of some work. `factor`: CPU seconds here for each measured one."""
    price_s, settings = FIRNLINE.cpu_s(work) * factor, given.settings
    if since_ms is None or spared_s <= 0:
        return CostBenefit(work, price_s, spared_s, amplification, spared_opens=opens)
    paid_ms = paid_at_ms(price_s, spared_s, since_ms, settings, head_start)
    cheap = work.bytes_read <= settings.cheap_bytes
    longest_ms = since_ms + int(settings.max_wait_ms * (1 - head_start))
    from_ms = 0 if cheap else min(paid_ms, longest_ms)
    return CostBenefit(work, price_s, spared_s, amplification, since_ms, paid_ms, from_ms, opens)
