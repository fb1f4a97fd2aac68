"""Page of a record: the verdict and checks of each case, and a strip with phases and inflight."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import numpy as np

from losslab.campaign.criteria import FAIL, PASS
from losslab.tools.conform.timeline import Column, NotObservableError, Timeline
from losslab.ui import webpage

WIDTH, HEIGHT, BAND = 900, 150, 18
POINTS = 450
# Variables of a strip and their colours, those that the algorithm has; the first scales it.
LINES = {
    "in_flight_packets": "#1f4e8c", "bdp_packets": "#888888", "inflight_hi_packets": "#c0392b",
    "cwnd_packets": "#2e8b57",
}  # fmt: skip
# Fills of phases, in the order of the algorithm's.
FILLS = ("#f6e3b4", "#d9e8f6", "#f6cfc4", "#d8ecd2", "#eeeeee", "#e6d6f0", "#f3dcea")


def page(data: Mapping[str, Any], lines: Mapping[str, Timeline]) -> str:
    """Return a record as HTML, with the time lines of the runs that decide, by case."""
    legend = ", ".join(f'<span style="color:{c}">{name}</span>' for name, c in LINES.items())
    head = f"<p>{escape(data['source'])}. Lines: {legend}. The dashed line is T.</p>"
    cases = (_case(row, lines.get(row["case"])) for row in data["cases"])
    limits = webpage.bullets(f"warning: {line}" for line in data.get("warnings", ()))
    return webpage.page(f"{data['suite']}: {data['algorithm']}", [head, *cases, limits])


def _case(row: Mapping[str, Any], line: Timeline | None) -> str:
    decisive = next(each for each in row["seeds"] if each["verdict"] == row["verdict"])
    checks = [("stimulus", each) for each in decisive["holds"]]
    checks += [
        (f"step {each['step']}" if "step" in each else "limit", each) for each in decisive["steps"]
    ]
    items = "".join(
        f'<li><b class="{each["verdict"]}">{each["verdict"]}</b> {place}: {escape(each["text"])}'
        + (f" <i>(ours: {escape(each['ours'])})</i>" if "ours" in each else "")
        + (scale(each["number"]) if "low" in each.get("number", {}) else "")
        + "</li>"
        for place, each in checks
    )
    notes = f"<p>{escape(row['note'])}</p>" if "note" in row else ""
    notes += f"<p>Repairs case {escape(row['repairs'])}.</p>" if "repairs" in row else ""
    verdict, opened = row["verdict"], " open=''" if row["verdict"] == FAIL else ""
    why = "" if verdict == PASS else f"<p>{escape(decisive['why'])}</p>"
    return (
        f'<details{opened}><summary><b class="{verdict}">{verdict}</b> {escape(row["case"])} '
        f"{escape(row.get('section', ''))} {escape(row['title'])}</summary>{notes}{why}"
        f"{strip(line) if line else ''}"
        f"<ul>{items}</ul><p><code>{escape(decisive['command'])}</code></p></details>"
    )


def scale(number: Mapping[str, float]) -> str:
    """Return a confidence interval on a scale from 0, beside the values that fail."""
    limit = number.get("at_most", number.get("at_least", 0.0))
    end = max(limit, number["high"]) * 1.2 or 1.0
    low, high, value, edge = (
        each / end for each in (number["low"], number["high"], number["value"], limit)
    )
    return webpage.interval((low, high), value, (edge, 1) if "at_most" in number else (0, edge))


def strip(line: Timeline) -> str:
    """Return the phases of a time line as bands, and its variables as lines."""
    end_s = float(line.times[-1])
    parts = [*_bands(line, end_s), *_lines(line, end_s)]
    at = WIDTH * line.begin_s / end_s
    if line.begin_s:
        parts.append(f'<path d="M{at:.1f} 0V{HEIGHT}" stroke="#000" stroke-dasharray="4 3"/>')
    parts.append(f'<text x="{WIDTH - 4}" y="{HEIGHT - 4}" text-anchor="end">{end_s:.4g} s</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(parts)}</svg>'


def _bands(line: Timeline, end_s: float) -> Iterator[str]:
    fills = dict(zip(line.phases, FILLS * len(line.phases), strict=False))
    for span in line.spans if line.phases else ():
        at, width = (WIDTH * t / end_s for t in (span.begin_s, span.end_s - span.begin_s))
        fill = fills.get(span.phase, "#ffffff")
        yield f'<rect x="{at:.1f}" width="{width:.1f}" height="{HEIGHT}" fill="{fill}"/>'
        if width > 8 * len(span.phase):
            yield f'<text x="{at + 3:.1f}" y="13">{escape(span.phase)}</text>'


def _lines(line: Timeline, end_s: float) -> Iterator[str]:
    rows = np.unique(np.linspace(0, len(line.times) - 1, POINTS).astype(int))
    top = float(np.nanmax(line.column(next(iter(LINES))))) * 1.3 or 1.0
    for name, colour in LINES.items():
        try:
            values = line.column(name)[rows].astype(float)
        except NotObservableError:
            continue
        yield (
            f'<path d="{_path(line.times[rows] / end_s, values / top)}" fill="none" '
            f'stroke="{colour}"><title>{name}</title></path>'
        )


def _path(at: Column, share: Column) -> str:
    """Return an SVG path of shares of width and height; a gap where there is no value."""
    words, pen = [], "M"
    for x, y in zip(at.tolist(), np.minimum(share, 1).tolist(), strict=True):
        if math.isnan(y):
            pen = "M"
            continue
        words.append(f"{pen}{WIDTH * x:.1f} {HEIGHT - (HEIGHT - BAND) * y:.1f}")
        pen = "L"
    return "".join(words)
