"""An assessment as one page: a file that needs nothing else, and runs no script.

Names of tables, partitions and properties are their owners' texts: each goes through `escape`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from firnline_domain.version import VERSION

from firnline_cli.assessment.findings import Finding, Kind
from firnline_cli.assessment.readiness import lake_words, table_words
from firnline_cli.assessment.summary import LakeSummary
from firnline_cli.assessment.text import TITLES, plan_of, seconds, words_of
from firnline_cli.assessment.verdict import Verdict, by_need
from firnline_cli.shared.formats import counted, moment, number, plain, size

MAX_ROWS = 2_000  # of 300 bytes to 2 kB each
STYLE = """
:root{color-scheme:light dark;--ink:#1d2733;--dim:#64707d;--line:#d9dfe5;--back:#fff;
--soft:#f4f6f8;--hazard:#b3261e;--debt:#8a5a00;--readers:#7a3e9d;--metadata:#0b6e7d;
--advice:#64707d}@media (prefers-color-scheme:dark){:root{--ink:#e3e8ed;--dim:#98a4b0;
--line:#38434e;--back:#14191f;--soft:#1c232b;--hazard:#ff8a80;--debt:#f0b95b;--readers:#d3a1f0;
--metadata:#6fd0dd}}*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;margin:0;
background:var(--back);color:var(--ink)}main{max-width:1180px;margin:0 auto;
padding:32px 24px 64px}h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 10px}p{
margin:6px 0}.dim{color:var(--dim)}.figures{display:grid;
grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:20px 0}
.figure{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:12px 16px;
min-width:150px}.figure b{display:block;font-size:22px;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}th{color:var(--dim);
font-weight:500;font-size:13px;text-align:left;white-space:nowrap}th,td{padding:7px 10px 7px 0;
border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right;
font-variant-numeric:tabular-nums;white-space:nowrap}td.name{font-weight:600;
overflow-wrap:anywhere;min-width:160px}ul{margin:6px 0 0;padding:0;list-style:none}li{
margin:3px 0;font-size:14px;font-weight:400}.tag{display:inline-block;font-size:12px;
font-weight:600;margin-right:6px}.hazard{color:var(--hazard)}.debt{color:var(--debt)}.readers{
color:var(--readers)}.metadata{color:var(--metadata)}.advice{color:var(--advice)}details{
margin-top:4px}summary{cursor:pointer;color:var(--dim);font-size:13px;font-weight:400}code{
font-size:13px}
"""


def page(summary: LakeSummary, verdicts: Sequence[Verdict], at_ms: int) -> str:
    """Return the whole file."""
    ranked = sorted((one for one in verdicts if not one.error), key=by_need)
    sick = [one for one in ranked if one.is_sick or one.findings]
    fine = len(ranked) - len(sick)
    body = [
        "<h1>Which tables need maintenance</h1>",
        f'<p class="dim">{_head(summary, at_ms)}</p>',
        *_figures(summary),
        *_first(summary),
        *_readiness(summary),
        "<h2>Sick tables first</h2>",
        *_tables(sick[:MAX_ROWS], at_ms),
        *_more(len(sick) - MAX_ROWS, fine),
        *_unread(summary, verdicts),
        f'<p class="dim">firnline assess {escape(VERSION)}, from metadata alone. Costs and savings '
        "are the planner's own model; the pace is that of the snapshots of the last week.</p>",
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Which tables need maintenance</title><style>{STYLE}</style></head><body><main>"
        + "\n".join(body)
        + "</main></body></html>\n"
    )


def _said(text: str) -> str:
    return escape(plain(text))


def _head(summary: LakeSummary, at_ms: int) -> str:
    stopped = f" Interrupted after {summary.assessed:,} of them." if summary.interrupted else ""
    return (
        f"{counted(summary.listed, 'table')}, {moment(at_ms)[:16].replace('T', ' ')} UTC.{stopped}"
    )


def _figures(summary: LakeSummary) -> Iterator[str]:
    figures = (
        (number(summary.sick), "tables need something"),
        (number(summary.findings.get(Kind.HAZARD, 0)), "with a hazard"),
        (number(summary.equality_tables), "with equality deletes"),
        (number(summary.delete_files), f"delete files, {number(summary.data_files)} data files"),
        (seconds(summary.spared_s), "a day readers could be spared"),
        (seconds(summary.cost_s), "once, for that"),
    )
    yield '<div class="figures">'
    for value, words in figures:
        yield f'<div class="figure"><b>{_said(value)}</b>{_said(words)}</div>'
    yield "</div>"


def _first(summary: LakeSummary) -> Iterator[str]:
    if plan := plan_of(summary):
        yield f"<p>{_said(plan)}</p>"


def _readiness(summary: LakeSummary) -> Iterator[str]:
    if lines := list(lake_words(summary.readiness)):
        yield "<h2>Format versions 3 and 4</h2>"
        yield from (f"<p>{_said(line)}</p>" for line in lines)


def _tables(verdicts: Sequence[Verdict], at_ms: int) -> Iterator[str]:
    if not verdicts:
        yield "<p>None.</p>"
        return
    numbers = ("data files", "delete files", "size", "now + later", "cost, once", "spared a day")
    heads = "".join(f'<th class="n">{one}</th>' for one in numbers)
    yield f'<div class="scroll"><table><thead><tr><th>table</th>{heads}</tr></thead><tbody>'
    for one in verdicts:
        yield _row(one, at_ms)
    yield "</tbody></table></div>"


def _row(one: Verdict, at_ms: int) -> str:
    facts = one.facts
    assert facts is not None
    cells = (
        number(facts.data_files),
        number(facts.deletes.files),
        size(facts.data_bytes),
        f"{one.orders:,} + {one.later:,}" if one.later else number(one.orders),
        seconds(one.cost_s) if one.planned else "-",
        seconds(one.spared_s) if one.planned else "-",
    )
    figures = "".join(f'<td class="n">{_said(cell)}</td>' for cell in cells)
    shown = [finding for finding in one.findings if finding.kind is not Kind.ADVICE]
    advice = [finding for finding in one.findings if finding.kind is Kind.ADVICE]
    notes = "".join(map(_item, shown))
    notes += _planned(one, at_ms)
    if advice:
        items = "".join(map(_item, advice))
        notes += f"<li><details><summary>{counted(len(advice), 'recommendation')}</summary>"
        notes += f"<ul>{items}</ul></details></li>"
    if one.readiness:
        items = "".join(f"<li>{_said(table_words(each))}</li>" for each in one.readiness)
        notes += f"<li><details><summary>format versions</summary><ul>{items}</ul></details></li>"
    off = "" if one.enabled else ' <span class="dim">(switched off)</span>'
    why = f'<li class="dim">not counted: {_said(facts.uncounted)}</li>' if facts.uncounted else ""
    return f'<tr><td class="name">{_said(one.dotted)}{off}<ul>{notes}{why}</ul></td>{figures}</tr>'


def _planned(one: Verdict, at_ms: int) -> str:
    """Return the rewrite that spares most as a list item, and the next ones folded."""
    if not one.first:
        return ""
    first, *others = (_said(words_of(rewrite, at_ms)) for rewrite in one.first)
    line = f'<li><span class="tag">first</span>{first}</li>'
    if not others:
        return line
    left = one.planned - len(one.first)
    items = "".join(f"<li>{text}</li>" for text in others)
    more = f"<li>and {left:,} more</li>" if left > 0 else ""
    return f"{line}<li><details><summary>then</summary><ul>{items}{more}</ul></details></li>"


def _item(finding: Finding) -> str:
    remedy = f' <span class="dim">{_said(finding.remedy)}</span>' if finding.remedy else ""
    kind = finding.kind
    return f'<li><span class="tag {kind}">{TITLES[kind]}</span>{_said(finding.text)}{remedy}</li>'


def _more(left: int, fine: int) -> Iterator[str]:
    if left > 0:
        yield f'<p class="dim">and {left:,} more: --json has all</p>'
    if fine:
        yield f'<p class="dim">{counted(fine, "table")} with nothing to be said of.</p>'


def _unread(summary: LakeSummary, verdicts: Sequence[Verdict]) -> Iterator[str]:
    unread = sorted((one for one in verdicts if one.error), key=lambda one: one.name)
    if not unread and not summary.unlisted:
        return
    yield "<h2>Not read</h2><ul>"
    for one in unread[:MAX_ROWS]:
        yield f"<li><b>{_said(one.dotted)}</b> {_said(one.error)}</li>"
    for name, why in summary.unlisted.items():
        yield f"<li><b>{_said(name)}</b> could not be listed: {_said(why)}</li>"
    yield "</ul>"
