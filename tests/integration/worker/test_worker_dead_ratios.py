"""Which files a rewrite takes, by their share of dead rows; Spark's reader is the judge."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.identity import normal_path
from firnline_iceberg.scan.planning import live_files

pytestmark = [pytest.mark.spark, pytest.mark.stack]


@pytest.mark.parametrize("version", ["2", "3"])
def test_in_one_order_files_are_rewritten_converted_and_left(version, lab, rewriter, rewritten):
    """Of 1,000 rows each: of one 400 are dead by position, of one 50; an equality delete reaches
    both, and of a newer one 20 are dead, which it does not reach."""
    lab.create(
        "id BIGINT, v INT",
        **{"format-version": version, "write.delete.mode": "merge-on-read"},
        **{"write.target-file-size-bytes": "1000"},  # no fragments
    )
    for first in (0, 1000):
        lab.sql(f"INSERT INTO {{t}} SELECT id, 0 FROM range({first}, {first + 1000}, 1, 1)")
    lab.sql("DELETE FROM {t} WHERE id < 400 OR id BETWEEN 1000 AND 1049")
    lab.equality_delete(["id"], "(500), (1500)", rows="(500, 1), (1500, 1)")
    lab.sql("INSERT INTO {t} SELECT id, 0 FROM range(3000, 4000, 1, 1)")
    lab.sql("DELETE FROM {t} WHERE id BETWEEN 3000 AND 3019")
    before = files(lab)
    above, below, newer = (before[rows] for rows in (0, 1000, 3000))
    result = rewritten(action="convert", min_dead_ratio=0.3)
    groups = {tuple(sorted(f.path for f in one.inputs)): one.converts for one in result.groups}
    assert groups[(below,)] is True
    assert all(newer not in paths for paths in groups)
    (rewrite,) = [paths for paths, converts in groups.items() if not converts]
    assert above in rewrite
    assert below not in rewrite
    head = live_files(lab.table(), lab.table().head_id("main"))
    assert not [one for one in head.deletes if one.kind == "equality"]
    dead = {one.referenced_data_file: one.records for one in head.deletes}
    assert dead == {normal_path(below): 51, normal_path(newer): 20}
    assert {below, newer} < {file.path for file in head.data}
    assert above not in {file.path for file in head.data}
    assert sum(one.dead for one in result.dead_rows) == 51 + 20
    assert sum(one.files for one in result.dead_rows) == len(head.data)
    assert sum(one.records for one in result.dead_rows) == sum(one.records for one in head.data)
    again = rewriter.rewrite(
        replace(lab.order(), action="compact", min_dead_ratio=0.3), lambda _: None
    )
    assert (again.groups, again.dead_rows) == ((), result.dead_rows)  # and it says so


def files(lab):
    """By the lowest id in it."""
    query = "SELECT min(id), _file FROM {t} GROUP BY _file"
    return {row[0] // 1000 * 1000: row[1] for row in lab.sql(query).collect() if row[0] != 500}
