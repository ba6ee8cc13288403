"""On a terminal of any width each row says what it is about, and no line is wider than it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from firnline_adapters.config.settings import all_settings
from firnline_cli.__main__ import COMMANDS
from firnline_domain.base.values import replace
from firnline_domain.identity import TableName
from rich.cells import cell_len

from tests.examples import make
from tests.kit.console_site import Site

WIDTHS = (80, 100, 120, 200)
LONG = "a_table_with_quite_a_long_name_that_says_it"
JAR = "/opt/jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar:/opt/jars/iceberg-aws-bundle-1.12.0.jar"
MARK = "\x1e"  # before the output of each command
# Command lines at each width, all in one process: a start of Python for each would take minutes.
RUN = f"""
import fcntl, json, struct, sys, termios
from firnline_cli.__main__ import main
for width, words in json.loads(sys.stdin.read()):
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    sys.stdout.write({MARK!r} + "\\n")
    sys.stdout.flush()
    try:
        main(words, standalone_mode=False)
    except SystemExit:
        pass
    sys.stdout.flush()
"""
REPORTS = f"""
import fcntl, struct, sys, termios
from firnline_cli.adoption.report import TextAdoptionReport
from firnline_cli.checks.findings import CheckFinding, CheckStatus
from firnline_cli.commands.look.doctor import DoctorReport
from firnline_cli.shared.formats import print_wrapped
from firnline_cli.commands.act.sweep_outputs import result_lines
text = "reading " + "x" * 300
bad = CheckFinding("kafka.broker", CheckStatus.FAILED, text, "no answer", "do " * 90)
swept = {{"table": "shop.t", "removed": ["s3://bucket/" + "d/" * 200], "lists": [], "uploads": [],
    "left": [], "reachable": 3, "troubles": ["no list " * 40]}}
for width in {WIDTHS}:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    sys.stdout.write({MARK!r} + "\\n")
    sys.stdout.flush()
    DoctorReport().print_finding(bad)
    TextAdoptionReport(False).report_left_out("shop." + "y" * 300, "it is a view, " * 30)
    print_wrapped(result_lines(swept, False), hang=4)
    sys.stdout.flush()
"""


def shown(code: str, lines: list[tuple[int, list[str]]], **environment: str) -> list[list[str]]:
    """What each command line has written on a terminal of its width, as lines without colours."""
    ours, theirs = pty.openpty()
    kept = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=theirs, stderr=theirs,
        env={**kept, "TERM": "xterm", **environment},
    )  # fmt: skip
    os.close(theirs)
    assert child.stdin
    child.stdin.write(json.dumps(lines).encode())
    child.stdin.close()
    pieces = []
    try:
        while piece := os.read(ours, 65_536):
            pieces.append(piece)
    except OSError:  # Linux says so that the other side is closed
        pass
    os.close(ours)
    assert child.wait() == 0, b"".join(pieces).decode()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(pieces).decode()).replace("\r", "")
    return [one.strip("\n").split("\n") for one in text.split(MARK)[1:]]


def told(site: Site) -> None:
    """Tables with long names, many partitions, words in every column."""
    state = make("table_state/in_flight")
    name = TableName("6f1d9c1e-5d0a-4b7e-9a4e-0d3c1f2b3a40", ("ops", "of_a_team"), LONG)
    site.tell(state, make("table_committed/upsert"), make("rewrite_files/compact"))
    site.tell(replace(state, table=name, debt_files=9))
    site.tell(make("rewrite_committed/native", task_id=make("rewrite_files/compact").task_id))
    site.tell(make("table_advice/tiny_partitions"))


def test_every_grid_fits_and_names_its_rows(site: Site, tmp_path: Path) -> None:
    told(site)
    at = ["--console", site.uri]
    long = f"ops.of_a_team.{LONG}"
    commands = {
        "tables": ["tables", *at],
        "tasks": ["tasks", *at],
        "explain": ["explain", long, *at],
        "all": ["explain", "shop.orders", "--all", *at],
        "advise": ["advise", *at],
        "events": ["events", *at],
        "status": ["status", *at],
        "settings": ["settings", "--state", str(tmp_path)],
        "of a table": ["settings", long, *at],
    }
    lines = [(width, words) for width in WIDTHS for words in commands.values()]
    set_here = {"FIRNLINE_ICEBERG_JAR": JAR, "FIRNLINE_CATALOG_URI": "http://gateway:8181"}
    texts = shown(RUN, lines, **set_here)
    for at_width, width in enumerate(WIDTHS):
        first = at_width * len(commands)
        found = dict(zip(commands, texts[first : first + len(commands)], strict=True))
        wide = [(what, one) for what in found for one in found[what] if cell_len(one) > width]
        assert wide == [], width
        names = {one.split(" ")[0] for one in found["settings"]}
        assert names >= {one.variable for one in all_settings()}, width
        assert any(JAR[:9] in one for one in found["settings"]), width
        rows = found["tables"][1:]
        assert [one.split(" ")[0] for one in rows] == [long, "shop.orders"], width
        own = {one.split()[0] for one in found["of a table"]}
        assert own > {"firnline.enabled", "firnline.shadow"}, width


def test_reports_are_folded_to_the_terminal() -> None:
    for width, text in zip(WIDTHS, shown(REPORTS, []), strict=True):
        assert [one for one in text if cell_len(one) > width] == []
        assert len(text) > 5


def test_every_help_fits_80_columns() -> None:
    names = [[*words, "-h"] for words in ([], *([name] for name in COMMANDS))]
    for words, text in zip(names, shown(RUN, [(80, one) for one in names]), strict=True):
        assert [one for one in text if cell_len(one) > 80] == [], words
        assert text[0].startswith("Usage: "), words
