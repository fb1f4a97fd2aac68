"""A decision on one page: text for a terminal, and HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from tabulate import tabulate

from losslab.tools.decide.question import quantity_text, words
from losslab.tools.decide.verdict import UNIMPORTANT
from losslab.ui import webpage

Found = Mapping[str, Any]
COMPARED = ("", "measure", "mean", "ratio", "95 % CI", "n", "verdict")
# Factors beyond these are shown as such, and others as percent.
PERCENT = (0.5, 2.0)
# How the page says a change of an answer (`verdict.change`).
CHANGES = {
    "flips": "the answer changes to", "decides": "the answer becomes clear:",
    "no longer decided": "the answer is no longer clear:",
}  # fmt: skip
# Smallest and largest end of a drawing's scale.
LEAST, MOST = math.log(1.2), math.log(8)


def text(found: Found) -> str:
    """Return the page for a terminal."""
    lines = [found["headline"], *costs(found), *_not_of_path(found), ""]
    rows = [[part, *cells] for part, _, cells in _rows(found)]
    lines.append(tabulate(rows, COMPARED, tablefmt="plain", disable_numparse=True))
    lines += ["", "What would change the decision"]
    lines += [f"  {line}" for line in changes(found)]
    lines += [f"invalid: {line}" for line in invalid(found)]
    lines += [f"warning: {line}" for line in found["warnings"]]
    lines += ["", *(f"{name}: {value}" for name, value in _question(found))]
    return "\n".join([*lines, "", *_notes(found), "", found["command"]])


def html(decided: Found) -> str:
    """Return the page as HTML, without other files and without scripts."""
    ends = [end for its in decided["comparisons"] for end in its["ratio"]["interval"] or []]
    scale = min(MOST, max([LEAST, *(abs(math.log(end)) for end in ends if 0 < end < math.inf)]))
    rows = [
        [*map(escape, [part, *cells]),
         webpage.ratio(its["ratio"]["value"], its["ratio"]["interval"], scale, UNIMPORTANT,
                       str(its["verdict"]).split()[0])]
        for part, its, cells in _rows(decided)
    ]  # fmt: skip
    lost = invalid(decided)
    return webpage.page(
        decided["headline"],
        [
            *(f"<p>{escape(line)}</p>" for line in [*costs(decided), *_not_of_path(decided)]),
            webpage.bullets(f"{use}: {its['text']}" for use, its in decided["answers"].items()),
            "<h2>By how much, and at whose cost</h2>",
            webpage.table(
                (*COMPARED, "less \N{LEFTWARDS ARROW} 1 \N{RIGHTWARDS ARROW} more"), rows
            ),
            "<h2>What would change the decision</h2>",
            webpage.bullets(changes(decided)),
            "<h2>Invalid runs</h2>" + webpage.bullets(lost) if lost else "",
            f"<h2>Warnings</h2>{webpage.bullets(decided['warnings'])}"
            if decided["warnings"]
            else "",
            "<h2>The question</h2>",
            webpage.table((), ((name, escape(value)) for name, value in _question(decided))),
            webpage.bullets(_notes(decided)),
            f"<pre>{escape(decided['command'])}</pre>",
        ],
    )


def _rows(found: Found) -> Iterator[tuple[str, Found, list[str]]]:
    """Yield the part, the comparison and the cells of each row."""
    before = ""
    for its in found["comparisons"]:
        part, before = "" if its["part"] == before else its["part"], its["part"]
        own, other = (_number(mean) for mean in its["means"])
        means = f"{its['other']} {other}, {its['choice']} {own} {its['unit']}"
        value, ends = _ratio(its["ratio"])
        yield part, its, [its["title"], means, value, ends, str(its["n"]), str(its["verdict"])]


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _ratio(ratio: Found) -> tuple[str, str]:
    """Return a ratio and its interval as text: small changes in percent, others as factors."""
    value, ends = ratio["value"], ratio["interval"] or ()
    if value is None:
        return "", ""
    low, high = PERCENT
    if low < min([value, *ends]) and max([value, *ends]) < high:
        percent, *end_percents = (f"{100 * (each - 1):+.0f}" for each in (value, *ends))
        return f"{percent} %", " to ".join(end_percents)
    factor, *end_factors = (f"{each:.2g}" for each in (value, *ends))
    return f"{factor} times", " to ".join(end_factors)


def costs(found: Found) -> list[str]:
    """Say what a recommended choice costs: for the choice of today, where another one is better."""
    lines = []
    first = found["question"]["choices"][0]
    uses: dict[str, set[str]] = {}
    for use, its in found["answers"].items():
        for name in its["choices"] if its["verdict"] == "better" else ():
            uses.setdefault(name, set()).add(use)
    for choice in (each for each in found["question"]["choices"] if each in uses):
        verdict, parts = ("better", uses[first]) if choice == first else ("worse", uses[choice])
        against = [
            f"{its['title'][0].lower()}{its['title'][1:]} {_ratio(its['ratio'])[0]}".rstrip()
            + (f" with {its['choice']}" if choice == first else "")
            for its in found["comparisons"]
            if its["verdict"] == verdict
            and (its["part"] in parts or (its["part"] == "cost" and choice != first))
            and choice in (first, its["choice"])
        ]
        title = f"Against {first}" if choice == first else f"Cost of {choice}"
        lines += [f"{title}: {', '.join(against)}."] if against else []
    return lines


def _not_of_path(found: Found) -> list[str]:
    """Say what the file of --from-tc sets and the measured path does not have."""
    return [
        f"Not in the measured path, though the file sets it: {line}"
        for line in found["question"].get("left_out_of_path", ())
    ]


def changes(found: Found) -> list[str]:
    """Say which other paths change the decision."""
    paths = found["other_paths"]
    if not paths:
        return ["No other path was measured."]
    lines = [
        f'{path["path"]}: {use}: {CHANGES[its["change"]]} "{its["text"]}"'
        for path in paths
        for use, its in path["answers"].items()
        if its["change"]
    ]
    same = sum(not any(its["change"] for its in path["answers"].values()) for path in paths)
    names = ", ".join(dict.fromkeys(words(path["name"]) for path in paths))
    return [*lines, f"{same} of {len(paths)} paths with another value of {names} do not change it"]


def invalid(found: Found) -> list[str]:
    """List the violations of invalid runs, and what to change for uses that are not measured."""
    lines = [f"{reason} (runs: {count})" for reason, count in found["violations"].items()]
    lost = [use for use, its in found["answers"].items() if its["verdict"] == "not measured"]
    whole = [
        path["path"]
        for path in found["other_paths"]
        if all(path["answers"][use]["verdict"] != "not measured" for use in lost)
    ]
    path = [quantity_text(name, value) for name, value in found["question"]["path"].items()]
    if lost and whole:
        lines.append(f"{', '.join(lost)} can be measured with one of: {', '.join(whole)}")
    elif lost:
        lines.append(f"{', '.join(lost)} has too few valid runs: change one of {', '.join(path)}")
    return lines


def _question(found: Found) -> Iterator[tuple[str, str]]:
    its = found["question"]
    unknown = its["unknown"]
    path = [quantity_text(n, value) for n, value in its["path"].items() if n not in unknown]
    yield "Path", ", ".join(path) or "the default path"
    assumed = [
        quantity_text(name, value) + (" (unknown; a guess)" if name in unknown else "")
        for name, value in its["assumed"].items()
    ]
    if assumed:
        yield "Assumed, because not given", ", ".join(assumed)
    others = ", ".join(f"{count} {name}" for name, count in its["others"].items())
    rest = f"; of the others: {others}; the rest are yours" if others else ", yours"
    rest = f"; of the others: {others}; none of them yours" if its["alone"] else rest
    yield "Long flows", f"{its['flows']}{rest}" if its["flows"] else "none"
    pages = ""
    if its["page_kb"]:
        count = its["pages_per_s"] * found["duration_s"]
        pages = f", {its['page_kb']:g} kB, about {count:.0f} pages in a run"
    yield "Users", ", ".join(its["uses"]) + pages
    yield "Choices", ", ".join(its["choices"])
    each = f"{found['runs']} of {found['duration_s']:g} s for each choice"
    others = f", {found['other_runs']} on each other path" if found["other_paths"] else ""
    yield "Runs", f"{each}{others}, with the same seeds"
    yield "Measured", f"in an emulated network in virtual time, by losslab {found['losslab']}"
    kernels = (f"{version} ({', '.join(names)})" for version, names in
               found["measured_with"].items())  # fmt: skip
    yield "Kernel", "; ".join(kernels) or "not recorded"
    if found["bbr_versions"]:
        yield "BBR", ", ".join(f"{n} is {text}" for n, text in found["bbr_versions"].items())


def _notes(found: Found) -> Sequence[str]:
    left = ", ".join(found["left_out"])
    return [
        "A choice is better if its whole confidence interval (CI) is, and its mean by more than "
        "5 %. A difference does not matter if the whole interval is within 5 %.",
        "Each interval has its own error of 5 %, shared by the pairs of more than two choices. A "
        "ratio is the geometric mean over the pairs of runs, not the ratio of the means.",
        *([f"The budget was too small for {left}."] if left else []),
    ]
