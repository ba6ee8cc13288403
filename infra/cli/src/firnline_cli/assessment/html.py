"""An assessment as one page: a file that needs nothing else, and runs no script.

Names of tables, partitions and properties are their owners' texts: each goes through `escape`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from firnline_domain.version import VERSION

from firnline_cli.assessment.findings import AssessmentFinding, FindingKind
from firnline_cli.assessment.readiness import lake_words, table_words
from firnline_cli.assessment.summary import LakeSummary
from firnline_cli.assessment.text import TITLES, cpu_time_text, plan_of, words_of
from firnline_cli.assessment.verdict import TableAssessment, by_need
from firnline_cli.shared.formats import count_of, number_text, plain, size_text, timestamp_text

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


def render_page(summary: LakeSummary, verdicts: Sequence[TableAssessment], at_ms: int) -> str:
    """Return the whole file."""
    ranked = sorted((one for one in verdicts if not one.error), key=by_need)
    sick = [one for one in ranked if one.is_sick or one.findings]
    fine = len(ranked) - len(sick)
    body = [
        "<h1>Which tables need maintenance</h1>",
        f'<p class="dim">{_render_head(summary, at_ms)}</p>',
        *_render_figures(summary),
        *_render_plan(summary),
        *_render_readiness(summary),
        "<h2>Tables that need most first</h2>",
        *_render_tables(sick[:MAX_ROWS], at_ms),
        *_render_rest(len(sick) - MAX_ROWS, fine),
        *_render_unread(summary, verdicts),
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


def _escape_html(text: str) -> str:
    return escape(plain(text))


def _render_head(summary: LakeSummary, at_ms: int) -> str:
    stopped = f" Interrupted after {summary.assessed:,} of them." if summary.interrupted else ""
    time = timestamp_text(at_ms)[:16].replace("T", " ")
    return f"{count_of(summary.listed, 'table')}, {time} UTC.{stopped}"


def _render_figures(summary: LakeSummary) -> Iterator[str]:
    figures = (
        (number_text(summary.sick), "tables need something"),
        (number_text(summary.findings.get(FindingKind.HAZARD, 0)), "with a hazard"),
        (number_text(summary.equality_tables), "with equality deletes"),
        (
            number_text(summary.delete_files),
            f"delete files, {number_text(summary.data_files)} data files",
        ),
        (cpu_time_text(summary.spared_s), "a day readers could be spared"),
        (cpu_time_text(summary.cost_s), "once, for that"),
    )
    yield '<div class="figures">'
    for value, words in figures:
        yield f'<div class="figure"><b>{_escape_html(value)}</b>{_escape_html(words)}</div>'
    yield "</div>"


def _render_plan(summary: LakeSummary) -> Iterator[str]:
    if plan := plan_of(summary):
        yield f"<p>{_escape_html(plan)}</p>"


def _render_readiness(summary: LakeSummary) -> Iterator[str]:
    if lines := list(lake_words(summary.readiness)):
        yield "<h2>Format versions 3 and 4</h2>"
        yield from (f"<p>{_escape_html(line)}</p>" for line in lines)


def _render_tables(verdicts: Sequence[TableAssessment], at_ms: int) -> Iterator[str]:
    if not verdicts:
        yield "<p>None.</p>"
        return
    numbers = ("data files", "delete files", "size", "now + later", "cost, once", "spared a day")
    heads = "".join(f'<th class="n">{one}</th>' for one in numbers)
    yield f'<div class="scroll"><table><thead><tr><th>table</th>{heads}</tr></thead><tbody>'
    for one in verdicts:
        yield _render_row(one, at_ms)
    yield "</tbody></table></div>"


def _render_row(one: TableAssessment, at_ms: int) -> str:
    facts = one.facts
    assert facts is not None
    cells = (
        number_text(facts.data_files),
        number_text(facts.deletes.files),
        size_text(facts.data_bytes),
        f"{one.orders:,} + {one.later:,}" if one.later else number_text(one.orders),
        cpu_time_text(one.cost_s) if one.planned_rewrites else "-",
        cpu_time_text(one.spared_s) if one.planned_rewrites else "-",
    )
    figures = "".join(f'<td class="n">{_escape_html(cell)}</td>' for cell in cells)
    shown = [finding for finding in one.findings if finding.kind is not FindingKind.ADVICE]
    advice = [finding for finding in one.findings if finding.kind is FindingKind.ADVICE]
    notes = "".join(map(_render_finding, shown))
    notes += _rewrites_html(one, at_ms)
    if advice:
        items = "".join(map(_render_finding, advice))
        notes += f"<li><details><summary>{count_of(len(advice), 'recommendation')}</summary>"
        notes += f"<ul>{items}</ul></details></li>"
    if one.readiness:
        items = "".join(f"<li>{_escape_html(table_words(each))}</li>" for each in one.readiness)
        notes += f"<li><details><summary>format versions</summary><ul>{items}</ul></details></li>"
    off = "" if one.enabled else ' <span class="dim">(switched off)</span>'
    why = (
        f'<li class="dim">not counted: {_escape_html(facts.uncounted)}</li>'
        if facts.uncounted
        else ""
    )
    name = _escape_html(one.dotted_name)
    return f'<tr><td class="name">{name}{off}<ul>{notes}{why}</ul></td>{figures}</tr>'


def _rewrites_html(one: TableAssessment, at_ms: int) -> str:
    """Return the rewrite that spares most as a list item, and the next ones folded."""
    if not one.first:
        return ""
    first, *others = (_escape_html(words_of(rewrite, at_ms)) for rewrite in one.first)
    line = f'<li><span class="tag">first</span>{first}</li>'
    if not others:
        return line
    left = one.planned_rewrites - len(one.first)
    items = "".join(f"<li>{text}</li>" for text in others)
    more = f"<li>and {left:,} more</li>" if left > 0 else ""
    return f"{line}<li><details><summary>then</summary><ul>{items}{more}</ul></details></li>"


def _render_finding(finding: AssessmentFinding) -> str:
    remedy = f' <span class="dim">{_escape_html(finding.remedy)}</span>' if finding.remedy else ""
    kind = finding.kind
    text = _escape_html(finding.text)
    return f'<li><span class="tag {kind}">{TITLES[kind]}</span>{text}{remedy}</li>'


def _render_rest(left: int, fine: int) -> Iterator[str]:
    if left > 0:
        yield f'<p class="dim">and {left:,} more: --json has all</p>'
    if fine:
        yield f'<p class="dim">{count_of(fine, "table")} with nothing to be said of.</p>'


def _render_unread(summary: LakeSummary, verdicts: Sequence[TableAssessment]) -> Iterator[str]:
    unread = sorted((one for one in verdicts if one.error), key=lambda one: one.name)
    if not unread and not summary.unlisted:
        return
    yield "<h2>Not read</h2><ul>"
    for one in unread[:MAX_ROWS]:
        yield f"<li><b>{_escape_html(one.dotted_name)}</b> {_escape_html(one.error)}</li>"
    for name, why in summary.unlisted.items():
        yield f"<li><b>{_escape_html(name)}</b> could not be listed: {_escape_html(why)}</li>"
    yield "</ul>"
