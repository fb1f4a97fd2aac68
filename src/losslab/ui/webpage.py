"""Pages that commands write: one HTML file without scripts, for light and dark screens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

WIDTH, HEIGHT = 200, 18  # of an interval's drawing
STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --back: #fff; --card: #f5f7f9; --line: #d5dae0;
  --good: #1a7f37; --bad: #b3261e; --band: #e3e8ee; --link: #005a9c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #a3adb8; --back: #14181d; --card: #1d232a; --line: #333c46;
    --good: #5fce7d; --bad: #ff8f85; --band: #2b343e; --link: #8cc4ff; }
}
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 70rem; background: var(--back);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
a { color: var(--link); }
h1 { font-size: 1.6rem; line-height: 1.3; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th { text-align: left; color: var(--soft); font-weight: 400; }
th, td { padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: normal; }
summary { cursor: pointer; padding: .2em 0; } summary b { display: inline-block; min-width: 10em; }
.PASS, .better { color: var(--good); } .FAIL, .worse { color: var(--bad); }
:target { background: var(--band); }
pre, code { background: var(--card); font-size: .8rem; white-space: pre-wrap; }
svg { width: 100%; height: auto; } svg text { font: 11px sans-serif; }
svg.interval { width: 200px; height: 18px; } .interval rect { fill: var(--band); }
.interval path { stroke: currentColor; stroke-width: 2.5; } .interval circle { fill: currentColor; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a page with a title, of parts in HTML."""
    body = "\n".join(filter(None, parts))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"/><style>{STYLE}</style></head>
<body><h1>{escape(title)}</h1>
{body}
</body></html>
"""


def bullets(lines: Iterable[str]) -> str:
    """Return lines of text as a list; "" if there are none."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of a head in text and cells in HTML."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    top = f"<thead><tr>{heads}</tr></thead>" if head else ""
    return f'<div class="scroll"><table>{top}<tbody>\n{body}</tbody></table></div>'


def interval(ends: Sequence[float], value: float, band: Sequence[float], kind: str = "") -> str:
    """Draw a confidence interval over a shaded band; all numbers are shares of the width."""
    low, high, at, begin, end = (
        WIDTH * min(1.0, max(0.0, share)) for share in (*ends, value, *band)
    )
    return (
        f'<svg viewBox="-5 0 {WIDTH + 10} {HEIGHT}" class="interval {kind}"><rect x="{begin:.1f}" '
        f'width="{end - begin:.1f}" height="{HEIGHT}"/><path d="M{low:.1f} {HEIGHT / 2}H{high:.1f}"'
        f'/><circle cx="{at:.1f}" cy="{HEIGHT / 2}" r="4.5"/></svg>'
    )


def ratio(
    value: float | None, ends: Sequence[float] | None, scale: float, band: float, kind: str = ""
) -> str:
    """Draw a ratio's confidence interval over a band; "" if it has none.

    The logarithmic scale reaches from -`scale` to `scale`, and the band from -`band` to `band`.
    """
    if not value or ends is None or min(value, *ends) <= 0:
        return ""
    powers = (*(math.log(each) for each in (*ends, value)), -band, band)
    low, high, at, *edges = ((1 + power / scale) / 2 for power in powers)
    return interval((low, high), at, edges, kind)
