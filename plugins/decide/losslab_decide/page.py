"""A decision on one page: text for a terminal, and HTML."""

from __future__ import annotations

import html as markup
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from tabulate import tabulate

from losslab.study.axes import short

TEMPLATE = Path(__file__).with_name("page.html")
Found = Mapping[str, Any]
COMPARED = ("", "measure", "mean", "ratio", "95 % CI", "n", "verdict")
# Factors beyond these are shown as such, and others as percent.
PERCENT = (0.5, 2.0)
# Width and height of an interval's drawing, and the smallest and largest end of its scale.
WIDTH, HEIGHT, LEAST, MOST = 200, 18, math.log(1.2), math.log(8)
UNIMPORTANT = math.log(1.05)


def text(found: Found) -> str:
    """Return the page for a terminal."""
    lines = [found["headline"], *costs(found), ""]
    rows = [[part, *cells] for part, _, cells in _rows(found)]
    lines.append(tabulate(rows, COMPARED, tablefmt="plain", disable_numparse=True))
    lines += ["", "What would change the decision"]
    lines += [f"  {line}" for line in changes(found)]
    lines += [f"invalid: {line}" for line in invalid(found)]
    lines += ["", *(f"{name}: {value}" for name, value in _question(found))]
    return "\n".join([*lines, "", *_notes(found), "", found["command"]])


def html(found: Found) -> str:
    """Return the page as HTML, without other files and without scripts."""
    ends = [end for its in found["comparisons"] for end in its["ratio"]["interval"] or []]
    scale = min(MOST, max([LEAST, *(abs(math.log(end)) for end in ends if 0 < end < math.inf)]))
    rows = []
    for part, its, cells in _rows(found):
        drawn = _interval(its["ratio"], scale, str(its["verdict"]))
        named = zip(COMPARED, map(markup.escape, [part, *cells]), strict=True)
        columns = "".join(f'<td data-name="{name}">{cell}</td>' for name, cell in named)
        rows.append(f'<tr>{columns}<td class="drawn">{drawn}</td></tr>')
    head = "".join(f"<th>{name}</th>" for name in (*COMPARED, "less &larr; 1 &rarr; more"))
    return Template(TEMPLATE.read_text()).substitute(
        headline=markup.escape(found["headline"]),
        costs="".join(f"<p>{markup.escape(line)}</p>" for line in costs(found)),
        answers="".join(
            f"<li><b>{use}</b><span>{markup.escape(its['text'])}</span></li>"
            for use, its in found["answers"].items()
        ),
        head=head,
        rows="\n".join(rows),
        changes=_list(changes(found)),
        others=_others(found),
        invalid="<h2>Invalid runs</h2>" + _list(invalid(found)) if found["violations"] else "",
        question="".join(
            f"<dt>{name}</dt><dd>{markup.escape(value)}</dd>" for name, value in _question(found)
        ),
        notes=_list(_notes(found)),
        command=markup.escape(found["command"]),
    )


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{markup.escape(line)}</li>' for line in lines)}</ul>"


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
        its, *others = (f"{100 * (each - 1):+.0f}" for each in (value, *ends))
        return f"{its} %", " to ".join(others)
    its, *others = (f"{each:.2g}" for each in (value, *ends))
    return f"{its} times", " to ".join(others)


def _interval(ratio: Found, scale: float, verdict: str) -> str:
    """Draw a ratio's interval on a logarithmic scale, with the band of 5 %."""
    value, ends = ratio["value"], ratio["interval"]
    if not value or ends is None or min(value, *ends) <= 0:
        return ""

    def at(log: float) -> str:
        return f"{WIDTH / 2 * (1 + log / scale):.1f}"

    low, mid, high = (min(scale, max(-scale, math.log(each))) for each in (ends[0], value, ends[1]))
    band = float(at(UNIMPORTANT)) - float(at(-UNIMPORTANT))
    y = HEIGHT / 2
    return (
        f'<svg viewBox="-5 0 {WIDTH + 10} {HEIGHT}" role="img" aria-label="{_ratio(ratio)[0]}" '
        f'class="{verdict.split()[0]}"><rect class="band" x="{at(-UNIMPORTANT)}" y="0" '
        f'width="{band:.1f}" height="{HEIGHT}"/><path class="zero" d="M{WIDTH / 2} 0V{HEIGHT}"/>'
        f'<path class="line" d="M{at(low)} {y:g}H{at(high)}"/>'
        f'<circle cx="{at(mid)}" cy="{y:g}" r="4.5"/></svg>'
    )


def costs(found: Found) -> list[str]:
    """Say what a recommended choice costs, compared with the first."""
    lines = []
    named = {name for its in found["answers"].values() for name in its["choices"]
             if its["verdict"] == "better"}  # fmt: skip
    for choice in (each for each in found["question"]["choices"] if each in named):
        worse = [
            f"{its['title'][0].lower()}{its['title'][1:]} {_ratio(its['ratio'])[0]}".rstrip()
            for its in found["comparisons"]
            if (its["part"], its["choice"], its["verdict"]) == ("cost", choice, "worse")
        ]
        lines += [f"Cost of {choice}: {', '.join(worse)}."] if worse else []
    return lines


def changes(found: Found) -> list[str]:
    """Say which other paths change the decision."""
    paths = found["other_paths"]
    if not paths:
        return ["not measured: no other paths"]
    lines = [
        f"{path['path']}: {use} {its['change']}: {its['text']}"
        for path in paths
        for use, its in path["answers"].items()
        if its["change"]
    ]
    same = sum(not any(its["change"] for its in path["answers"].values()) for path in paths)
    names = ", ".join(dict.fromkeys(path["name"] for path in paths))
    return [*lines, f"{same} of {len(paths)} other paths do not change it, with other {names}"]


def _others(found: Found) -> str:
    """Return the table of the answers on other paths."""
    rows = []
    for path in found["other_paths"]:
        cells = [f"<td>{markup.escape(path['path'])}</td>"]
        for its in path["answers"].values():
            said = its["verdict"] if its["verdict"] != "better" else its["text"]
            mark = its["change"].split(" ")[0]
            cells.append(f'<td class="{mark}">{markup.escape(said)}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{use}</th>" for use in ("path", *found["answers"]))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return table if rows else ""


def invalid(found: Found) -> list[str]:
    """List the violations of invalid runs, and what to change for uses that are not measured."""
    lines = [f"{reason} (runs: {count})" for reason, count in found["violations"].items()]
    lost = [use for use, its in found["answers"].items() if its["verdict"] == "not measured"]
    whole = [
        path["path"]
        for path in found["other_paths"]
        if all(path["answers"][use]["verdict"] != "not measured" for use in lost)
    ]
    path = [f"{name} {short(value)}" for name, value in found["question"]["path"].items()]
    if lost and whole:
        lines.append(f"{', '.join(lost)} can be measured with one of: {', '.join(whole)}")
    elif lost:
        lines.append(f"{', '.join(lost)} has too few valid runs: change one of {', '.join(path)}")
    return lines


def _question(found: Found) -> Iterator[tuple[str, str]]:
    its = found["question"]
    path = [f"{name} {short(value)}" for name, value in its["path"].items()]
    yield "Path", ", ".join(path) or "the default path"
    others = ", ".join(f"{count} {name}" for name, count in its["others"].items())
    more = f"; of the others: {others}" if others else ""
    yield "Long flows", f"{its['flows']}{more}; the rest use the choice"
    pages = f", {its['page_kb']:g} kB, {its['pages_per_s']:.3g} per s" if its["page_kb"] else ""
    yield "Users", ", ".join(its["uses"]) + pages
    yield "Choices", ", ".join(its["choices"])
    yield (
        "Runs",
        (
            f"{found['runs']} of {found['duration_s']:g} s for each choice, "
            f"{found['other_runs']} on each other path, with the same seeds"
        ),
    )


def _notes(found: Found) -> Sequence[str]:
    return [
        "A choice is better if its whole confidence interval (CI) is, and its mean by more than "
        "5 %. A difference does not matter if the whole interval is within 5 %.",
        "Each interval has its own error of 5 %, shared by the pairs of more than two choices.",
        *(
            [f"The budget was too small for {', '.join(found['left_out'])}."]
            if found["left_out"]
            else []
        ),
    ]
