"""Report of `losslab check` in Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tabulate import tabulate

from losslab.study import metrics

HEAD = ("cell", "metric", "before", "after", "change", "95 % CI", "n", "p (Holm)", "")


def markdown(data: Mapping[str, Any]) -> str:
    """Return the report of a comparison, data by workflow/schemas/check.schema.yaml."""
    return "\n".join([*_lines(data), ""])


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    changed, cells = data["changed"], data["cells"]
    what = ", ".join(f"`{path}`" for path in data["replaced"] or data["change"]) or "nothing"
    if not changed:
        yield f"**losslab check: no cell changed.** {len(cells)} cells, {data['runs']} runs."
        yield ""
        yield f"Change: {what}. {_same_kernel(data)}".rstrip()
        yield from _skipped(data)
        return
    moved = [(row["cell"], d) for row in changed for d in row["differences"] if d["verdict"]]
    yield (
        f"**losslab check: {len(changed)} of {len(cells)} cells changed, "
        f"{len(moved)} metrics moved significantly.**"
    )
    yield ""
    yield f"Change: {what}. {_same_kernel(data)}".rstrip()
    yield from _skipped(data)
    yield ""
    if moved:
        rows = [_row(cell, each) for cell, each in moved]
        yield tabulate(rows, HEAD, tablefmt="github", disable_numparse=True)
        yield ""
        yield (
            "Runs are paired by seed. Each confidence interval is of its comparison alone; "
            "p-values are adjusted for all compared metrics (Holm)."
        )
        yield ""
    for row in changed:
        for reason in row["reasons"]:
            yield f"- **{row['cell']}: invalid after the change**: {reason}"
    quiet = [row["cell"] for row in changed if not any(d["verdict"] for d in row["differences"])]
    if quiet:
        yield f"Other bytes, but no metric moved significantly: {', '.join(quiet)}."
        yield ""
    same = [cell for cell in cells if cell not in {row["cell"] for row in changed}]
    if same:
        yield f"Same bytes: {', '.join(same)}."
        yield ""
    yield from _first_differences(changed)


def _same_kernel(data: Mapping[str, Any]) -> str:
    count = len(data["same_kernel"])
    if not count:
        return ""
    return f"{count} cells were not measured: their kernel has the same binary."


def _skipped(data: Mapping[str, Any]) -> Iterator[str]:
    if data["skipped"]:
        paths = ", ".join(f"`{path}`" for path in data["skipped"])
        yield f"Skipped, as no result depends on them in this kernel: {paths}."


def _row(cell: str, each: Mapping[str, Any]) -> tuple[str, ...]:
    declared = metrics.declared()[each["metric"]]
    interval, ratio = each["ratio_interval"], each["ratio"]
    if interval and ratio is not None and None not in interval:
        change = f"{100 * (ratio - 1):+.3g} %"
        ends = [f"{100 * (end - 1):+.3g}" for end in interval]
        span = f"[{', '.join(ends)}] %"
    else:
        change = f"{each['after'] - each['before']:+.3g}"
        ends = [f"{end:+.3g}" for end in each["difference_interval"] or ()]
        span = f"[{', '.join(ends)}]" if ends else ""
    return (
        cell, declared.title, f"{each['before']:.4g}", f"{each['after']:.4g}", change, span,
        str(each["n"]), f"{each['p_adjusted']:.2g}", f"**{each['verdict']}**",
    )  # fmt: skip


def _first_differences(changed: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the first difference of each cell, folded, with the command that repeats it."""
    for row in changed:
        count = f"{len(row['changed'])} of {row['runs']} runs changed"
        yield f"<details><summary>{row['cell']}: {count}, first difference</summary>"
        yield ""
        yield "```"
        yield f"seed {row['seed']}; A: before the change, B: after it"
        yield from row["first_difference"]
        yield "```"
        yield ""
        yield "Repeat it after the change:"
        yield ""
        yield "```"
        yield row["command"]
        yield "```"
        yield ""
        yield "</details>"
        yield ""
