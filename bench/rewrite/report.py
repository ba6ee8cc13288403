"""bench/results/*.json into the README beside them, between its two markers, and into the plot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.rewrite.cluster_report import cluster_table
from bench.rewrite.markdown import commit, figure, megabytes, replace_section, shortened, table
from bench.rewrite.peers_report import peers_tables
from bench.rewrite.plot import svg
from bench.rewrite.prices_report import prices_tables
from bench.rewrite.run import PARTS, RESULTS

PAGE = Path(__file__).parents[1] / "results" / "README.md"
PLOT = RESULTS / "rewrite.svg"
KINDS = ("jvm", "driver", "python")  # python: all Python processes but the driver
Results = Mapping[str, Any]


def main() -> None:
    results = load(RESULTS)
    RESULTS.mkdir(parents=True, exist_ok=True)
    PLOT.write_text(svg(results))
    replace_section(PAGE, "rewrite", figures(results))


def load(folder: Path) -> dict[str, Any]:
    """What has been measured, by part."""
    paths = {name: folder / f"{name}.json" for name in PARTS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.is_file()}


def figures(results: Results) -> str:
    """The generated section. A part that was not measured is said to be so."""
    sections = [_bars(results)]
    for name, render in RENDERERS.items():
        if name in results:
            sections.append(render(name, results[name]))
        else:
            sections.append(f"### {TITLES[name]}\n\nNot measured yet.")
    return "\n\n".join(sections)


def _bars(results: Results) -> str:
    rows = [
        (
            name,
            bar["what"],
            f"{bar['found']['median']:.3g}",
            f"{bar['found']['low']:.3g} to {bar['found']['high']:.3g}",
            "-" if bar["limit"] is None else f"{bar['limit']:.3g}",
            {True: "met", False: "**not met**", None: "shown"}[bar["met"]],
        )
        for name, result in results.items()
        for bar in result["bars"]
    ]
    heads = ("part", "what", "median", "lowest to highest", "bar", "")
    return "### The bars\n\n" + table(heads, rows)


def _compared(name: str, result: Any) -> str:
    rows = [_engine(who, one) for who, one in result["summary"].items()]
    heads = (
        "engine", "wall s", "CPU s", "peak PSS MB", "output MB", "files", "same rows",
        "commit wall / CPU s", "cold: start + first s",
    )  # fmt: skip
    return "\n\n".join([_head(name, result), table(heads, rows), _where_it_goes(result)])


def _where_it_goes(result: Any) -> str:
    rows = [
        (
            who,
            *(f"{one['cpu_by'].get(kind, 0.0):.2f}" for kind in KINDS),
            *(megabytes(one["pss_by"].get(kind, 0)) for kind in KINDS),
        )
        for who, one in result["summary"].items()
    ]
    heads = ("of it", *(f"CPU s, {kind}" for kind in KINDS), *(f"MB, {kind}" for kind in KINDS))
    return table(heads, rows)


def _engine(who: str, one: Any) -> tuple[str, ...]:
    costs = one["commit"]
    commit_cost = commit(costs) if costs else "in it" if who.startswith("stock") else "-"
    return (
        who,
        figure(one["wall_s"]),
        figure(one["cpu_s"]),
        figure(one["pss_peak"], 1e6),
        f"{one['output_bytes']['median'] / 1e6:.1f}",
        str(one["output_files"]),
        "yes" if one["same_rows"] else "**no**",
        commit_cost,
        f"{one['start_s']['median']:.1f} + {one['warm_s']['median']:.1f}",
    )


def _head(name: str, result: Any) -> str:
    text = f"### {TITLES[name]}"
    if "table" in result:
        text += f"\n\n{described(result['table'])}"
    return f"{text} {_taken(result)}" if "table" in result else f"{text}\n\n{_taken(result)}"


def described(one: Mapping[str, Any]) -> str:
    """A table in a sentence."""
    return (
        f"{one['rows_in']:,} rows in {one['data_files']} data files and {one['delete_rows']:,} "
        f"delete rows in {one['delete_files']} files, {one['bytes'] / 1e6:.0f} MB, "
        f"{one['partitions']} partition(s); {one['rows_out']:,} rows are alive."
    )


def _taken(result: Any) -> str:
    return (
        f"Taken {result['taken_at']} at {result['commit']} on {result['machine']}, "
        f"load before it {result['load_before']:.1f}, in {result['seconds']} s."
    )


def _growth(name: str, result: Any) -> str:
    costs = result["cpu_s"]
    rows = [
        (
            who,
            *(_least(costs[who][factor]) for factor in ("1", "2", "4")),
            "-" if grown is None else f"{grown:.2f}",
        )
        for who, grown in result["growth"].items()
    ]
    heads = ("CPU s, median", "x1", "x2", "x4", "x4 / x1")
    biggest = described(result["tables"]["4"])
    return "\n\n".join([_head(name, result), f"The largest: {biggest}", table(heads, rows)])


def _least(values: Sequence[float]) -> str:
    return f"{sorted(values)[len(values) // 2]:.2f}" if values else "did not finish"


def _tasks(name: str, result: Any) -> str:
    rows = [
        (
            who,
            tasks,
            megabytes(one["pss_before"]),
            megabytes(one["pss_peak"]),
            f"{one['cpu_s']:.1f}",
        )
        for who in ("firnline", "stock")
        for tasks, one in result[who].items()
        if one
    ]
    heads = ("", "tasks at once", "PSS before MB", "peak PSS MB", "CPU s")
    cost = f"An idle Python process costs {megabytes(result['process_bytes'])} MB."
    return "\n\n".join([_head(name, result), table(heads, rows), cost])


def _budget(name: str, result: Any) -> str:
    stock = result["stock_same_heap"]
    runs = [("set of 4 budgets", one) for one in result["firnline"]]
    runs += [("set that fits", one) for one in result["fits"]]
    if "failed" not in stock:
        runs.append((f"stock, heap {stock['heap']}", stock))
    rows = [
        (
            what,
            f"{one['wall_s']:.2f}",
            f"{one['cpu_s']:.2f}",
            megabytes(one["pss_before"]),
            megabytes(one["pss_peak"]),
            "yes" if one["same_rows"] else "**no**",
            ", ".join(one["modes"] or ()),
        )
        for what, one in runs
    ]
    heads = ("", "wall s", "CPU s", "PSS before MB", "peak PSS MB", "same rows", "mode")
    text = [
        _head(name, result),
        f"The budget: {megabytes(result['budget_bytes'])} MB.",
        table(heads, rows),
    ]
    if "failed" in stock:
        text.append(
            f"Stock with a heap of {stock['heap']} did not finish: `{shortened(stock['failed'])}`"
        )
    return "\n\n".join(text)


def _memory(name: str, result: Any) -> str:
    rows = [_smallest(who, one) for who, one in result["smallest"].items()]
    heads = ("", "smallest heap", "peak PSS MB", "wall s", "CPU s", "tried")
    return "\n\n".join([_head(name, result), table(heads, rows)])


def _smallest(who: str, one: Any) -> tuple[str, ...]:
    tried = ", ".join(f"{t['heap']} {'ok' if t['finished'] else 'no'}" for t in one["tries"])
    if "heap" not in one:
        return (who, "none of them", "-", "-", "-", tried)
    return (
        who, one["heap"], megabytes(one["pss_peak"]), f"{one['wall_s']:.1f}",
        f"{one['cpu_s']:.1f}", tried,
    )  # fmt: skip


def _shapes(name: str, result: Any) -> str:
    heads = ("", "who", "wall s", "CPU s", "peak PSS MB", "output MB", "files", "same rows")
    tables = [described(one["table"]) for one in result["shapes"].values()]
    told = [f"- {what}: {text}" for what, text in zip(result["shapes"], tables, strict=True)]
    return "\n\n".join([_head(name, result), "\n".join(told), table(heads, _shape_rows(result))])


def _shape_rows(result: Any) -> Iterator[tuple[str, ...]]:
    for what, one in result["shapes"].items():
        for made in one["runs"]:
            yield (
                what,
                made["engine"],
                f"{made['wall_s']:.2f}",
                f"{made['cpu_s']:.2f}",
                megabytes(made["pss_peak"]),
                f"{made['output_bytes'] / 1e6:.1f}",
                str(made["output_files"]),
                "yes" if made["same_rows"] else "**no**",
            )


def _reads(name: str, result: Any) -> str:
    text = (
        f"Spark read every column of our result in {result['ours_s']} s and of stock's in "
        f"{result['stock_s']} s (median [lowest-highest])."
    )
    return "\n\n".join([_head(name, result), text])


def _races(name: str, result: Any) -> str:
    rows = [
        (
            who,
            str(one["turns"]),
            megabytes(one["bytes_committed"]),
            megabytes(one["bytes_lost"]),
            "-" if one["share"] is None else f"{100 * one['share']:.0f} %",
            str(one["rows_repaired"]),
            f"{one['failed']} of {one['commits']}",
            "{median} / {p99}".format(**one["statement_s"]),
            {True: "yes", False: "**no**", None: "-"}[one.get("rows_right")],
        )
        for who, one in result["sides"].items()
    ]
    heads = ("", "rewrites", "MB committed", "MB lost", "share", "rows repaired")
    more = ("writers' commits that failed", "statement s, median / p99", "rows right")
    return f"{_head(name, result)}\n\n{table((*heads, *more), rows)}"


def _statements(name: str, result: Any) -> str:
    rows = [
        (
            who,
            f"{one['failed']} of {one['statements']}",
            "; ".join(one["failures"]) or "-",
            "{median} / {p99}".format(**one["statement_s"]),
            str(one["rewrites"]),
            megabytes(one["bytes_committed"]),
            megabytes(one["bytes_lost"]),
            str(one["files_left"]),
            {True: "yes", False: "**no**"}[one["rows_right"]],
        )
        for who, one in result["sides"].items()
    ]
    heads = ("engine, writers", "statements that failed", "why", "statement s, median / p99")
    more = ("rewrites", "MB committed", "MB lost", "files left", "rows right")
    return f"{_head(name, result)}\n\n{table((*heads, *more), rows)}"


def _streams(name: str, result: Any) -> str:
    one = result["stream"]
    hot, quiet = one["writers"]["hot"], one["writers"]["quiet"]
    properties = ", ".join(f"`{key}={value}`" for key, value in one["properties"].items())
    small, took = sorted(one["small"]), hot["append_s"]
    failed = hot["failed"] + hot["unknown"]
    text = [
        f"{one['rate']:g} appends a second asked for, {hot['a_second']:g} made by "
        f"{one['writer_processes']} writers, for "
        f"{one['minutes']:g} minutes, {'' if one['busy'] else 'not '}beside a process that takes a "
        f"core; {quiet['a_second']:g} a second into a quiet table. Both: {properties}.",
        f"Our commits: {one['commits']}, with {one['committed_bytes'] / 1e6:.2f} MB of the "
        f"{one['rewritten_bytes'] / 1e6:.2f} that were rewritten. Small files: "
        f"{small[len(small) // 2]} in the median, {small[-1]} at most.",
        f"An append took {took['median']:.2f} s in the median, {took['p99']:.2f} s at the 99th "
        f"percentile; {failed} of {failed + hot['landed']} failed. The stack took "
        f"{one['cpu_s']:.0f} CPU s and {megabytes(one['pss_peak'])} MB.",
    ]
    waits = [
        (which, str(len(found)), f"{found[len(found) // 2]:.2f}", f"{found[-1]:.2f}")
        for which, found in one["waits_s"].items()
        if found
    ]
    heads = ("table", "results", "wait for the commit s, median", "longest")
    return "\n\n".join([_head(name, result), " ".join(text), table(heads, waits)])


def _commit_into_many(name: str, result: Any) -> str:
    one = result["head"]
    first, following = one["seconds"]
    text = (
        f"{one['files']:,} live files in {one['manifests']:,} manifests: {first} s for the first "
        f"commit, {following} s for the next, {one['committer_mb']} MB of the committer's memory, "
        f"{one['java_mb']} MB of its JVM's."
    )
    return "\n\n".join([_head(name, result), text])


def _peers(name: str, result: Any) -> str:
    return f"{_head(name, result)}\n\n{peers_tables(result)}"


def _requests(name: str, result: Any) -> str:
    heads = ("", "of", "files", "calls per file", "MB read", "MB written", "footers read, most")
    rows = [
        (
            who,
            what,
            str(one["files"]),
            ", ".join(f"{count:g} {verb}" for verb, count in sorted(one["per_file"].items())),
            f"{one['bytes_read'] / 1e6:.2f} of {one['bytes_of_files'] / 1e6:.2f}",
            f"{one['bytes_written'] / 1e6:.2f}",
            str(one["footer_reads_most"]),
        )
        for who, kinds in result["requests"].items()
        for what, one in kinds.items()
        if what != "same_rows"
    ]
    return "\n\n".join([_head(name, result), table(heads, rows)])


def _prices(name: str, result: Any) -> str:
    return f"{_head(name, result)}\n\n{prices_tables(result)}"


def _cluster(name: str, result: Any) -> str:
    return f"{_head(name, result)}\n\n{cluster_table(result)}"


TITLES = {
    "main": "Long keys",
    "keys": "Composite string keys",
    "growth": "More commits",
    "tasks": "Tasks at once",
    "budget": "A delete set of four memory budgets",
    "memory": "The smallest memory that is enough",
    "shapes": "Production shapes and one large file",
    "reads": "Reading the result",
    "requests": "Requests to an object store",
    "races": "Beside two commits a second",
    "statements": "Beside MERGE and DELETE statements",
    "streams": "A table that is appended to all the time, on two busy cores",
    "head": "A commit into a table of very many files",
    "prices": "What readers pay, and what conversions cost",
    "peers": "Sail and Trino beside us",
    "cluster": "Two executors of 1.5 GB that share only an object store",
    "cluster_large": "The same with a table of 4.7 GB",
}
RENDERERS = {
    "main": _compared,
    "keys": _compared,
    "growth": _growth,
    "tasks": _tasks,
    "budget": _budget,
    "memory": _memory,
    "shapes": _shapes,
    "reads": _reads,
    "requests": _requests,
    "races": _races,
    "statements": _statements,
    "streams": _streams,
    "head": _commit_into_many,
    "prices": _prices,
    "peers": _peers,
    "cluster": _cluster,
    "cluster_large": _cluster,
}


if __name__ == "__main__":
    main()
