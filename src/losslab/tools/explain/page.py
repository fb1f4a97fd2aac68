"""The result of `losslab explain` on one page: text for a terminal, and HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from tabulate import tabulate

from losslab.ui import webpage

Result = Mapping[str, Any]
MEASURED = ("number", "measured", "measured / published", "95 % CI", "")
# Ends of a drawing's scale: ratios from 1/4 to 4.
SCALE = math.log(4)
# From this ratio on, an end of an interval says nothing.
WIDE = 100.0


def text(result: Result) -> str:
    """Return the page for a terminal."""
    lines = [result["headline"], *result["notes"], *asks(result), "", *_legend(result),
             "Measured / published:", ""]  # fmt: skip
    head, rows = _head(result), [*_rows(result)]
    lines.append(tabulate(rows, head, tablefmt="plain", disable_numparse=True))
    for each in result["finalists"]:
        said = f"{each['setting']}, with fresh seeds and the held-out numbers: {_said(each)}"
        table = tabulate(_measured(each), MEASURED, tablefmt="plain", disable_numparse=True)
        lines += ["", said, *([table] if each["agrees"] else [])]
    lines += ["", *(f"not tried: {label}: {why}" for label, why in result["not_tried"].items())]
    return "\n".join(lines)


def html(result: Result) -> str:
    """Return the page as HTML, without other files and without scripts."""
    band = math.log1p(result["tolerance_percent"] / 100)
    finalists = [
        f"<h3>{escape(each['setting'])}</h3><p>{_said(each)}</p>"
        + webpage.table(
            (*MEASURED, ""),
            ([*map(escape, cells), webpage.ratio(its["ratio"], its["interval"], SCALE, band)]
             for cells, its in zip(_measured(each), each["numbers"], strict=True)),
        )
        + f"<pre>{escape(chr(10).join(each['commands']))}</pre>"
        for each in result["finalists"]
    ]  # fmt: skip
    rows = ([escape(cell) for cell in row] for row in _rows(result))
    left_out = (f"{label}: {why}" for label, why in result["not_tried"].items())
    return webpage.page(
        result["headline"],
        [
            f"<p>{escape(result['source'])}</p>" if result["source"] else "",
            webpage.bullets([*result["notes"], *asks(result)]),
            "<h2>What was tried</h2>",
            webpage.bullets(_legend(result)),
            "<p>Measured / published, with the seeds of the search:</p>",
            webpage.table(_head(result), rows),
            "<h2>Finalists, with fresh seeds and the held-out numbers</h2>",
            *(finalists or ["<p>None.</p>"]),
            "<h2>Not tried</h2>",
            webpage.bullets(left_out) or "<p>Nothing.</p>",
            f"<p>{result['runs']} runs in an emulated network in virtual time, by losslab "
            f"{result['losslab']}; tolerance {result['tolerance_percent']:.3g} %.</p>",
        ],
    )


def asks(result: Result) -> Iterator[str]:
    """Yield the questions to the author."""
    for each in result["ask"]:
        means = ", ".join(f"{mean:.3g} with {label}" for label, mean in each["means"].items())
        yield f"Ask the author for {each['title']} at {each['condition']}: {means}."


def _head(result: Result) -> list[str]:
    count = sum(not each["held_out"] for each in result["numbers"])
    return ["setting", "n", *(f"#{number}" for number in range(1, count + 1)), "outcome"]


def _legend(result: Result) -> Iterator[str]:
    """Yield the published numbers: those searched with, in the order of the table's columns."""
    for number, each in enumerate(sorted(result["numbers"], key=lambda its: its["held_out"]), 1):
        held_out = ", held out" if each["held_out"] else ""
        yield f"#{number}: {each['metric']} {each['published']:.4g} at {each['name']}{held_out}"


def _rows(result: Result) -> Iterator[list[str]]:
    """Yield the rows of the table, without the pairs that are far off, which are counted."""
    columns = [(each["metric"], each["name"]) for each in result["numbers"]
               if not each["held_out"]]  # fmt: skip
    far = 0
    for each in result["settings"]:
        if each["pair"] and each["outcome"].startswith(("far off", "excluded")):
            far += 1
            continue
        ratios = {(its["metric"], its["name"]): f"{its['ratio']:.2f}" for its in each["numbers"]}
        count = min(its["n"] for its in each["numbers"])
        cells = [ratios.get(column, "") for column in columns]
        yield [each["setting"], str(count), *cells, each["outcome"]]
    if far:
        yield [f"{far} more pairs", "", *("" for _ in columns), "far off or excluded"]


def _said(finalist: Result) -> str:
    if not finalist["agrees"]:
        return "does not agree"
    odds = finalist["times_less_probable"]
    return "agrees" + (f", but {odds:.2g} times less probable than the best" if odds > 1 else "")


def _measured(finalist: Result) -> list[list[str]]:
    """Return the cells of a finalist's numbers, as the head `MEASURED` says."""
    return [
        [f"{its['metric']}, {its['name']}", f"{its['mean']:.3g}", f"{its['ratio']:.2f}",
         _interval(its["interval"]), f"n = {its['n']}"]
        for its in finalist["numbers"]
    ]  # fmt: skip


def _interval(ends: list[float] | None) -> str:
    """Return an interval in words; two published runs, for instance, leave a ratio open."""
    if ends is None:
        return "too few runs"
    low, high = ends
    if high > WIDE:
        return f"above {low:.2f}" if low > 1 / WIDE else "any ratio"
    return f"{low:.2f} to {high:.2f}"
