"""Colours of the report's figures on a dark page.

A figure's colours become CSS variables of the page. On a dark page, greys and areas have the
opposite lightness. The colours of lines, points and text are lighter if they would be hard to see.
"""

from __future__ import annotations

import colorsys
import re

Rgb = tuple[float, float, float]

_COLOUR = re.compile(r"(fill|stroke):\s*#([0-9A-Fa-f]{6})")
# Areas, which may be as dark as the page, unlike lines, points and text.
_AREAS = ("rect", "polygon")
PAGE: Rgb = (0x14 / 255, 0x16 / 255, 0x1C / 255)  # --ground of report/style.css
MIN_CONTRAST = 4.5  # of text, WCAG 2.2, 1.4.3


def with_variables(style: str, element: str) -> str:
    """Return an element's style with a variable for each colour, such as `var(--l0072b2)`."""
    prefix = "a" if element in _AREAS else "l"

    def variable(match: re.Match[str]) -> str:
        of_area = prefix == "a" and match[1] == "fill"
        return f"{match[1]}:var(--{'a' if of_area else 'l'}{match[2].lower()})"

    return _COLOUR.sub(variable, style)


def style_sheet(page: str) -> str:
    """Return the definitions of the variables that a page uses, for light and dark."""
    names = sorted(set(re.findall(r"var\(--([al][0-9a-f]{6})\)", page)))
    light = "".join(f"--{name}:#{name[1:]};" for name in names)
    dark = "".join(f"--{name}:{_hex(dark_colour(name[1:], name[0] == 'a'))};" for name in names)
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme: dark){{body.losslab{{{dark}}}}}"
    )


def dark_colour(colour: str, area: bool) -> Rgb:
    """Return a colour, six hexadecimal digits, as it is drawn on a dark page."""
    if colour == "ffffff":
        return PAGE
    rgb: Rgb = tuple(int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4))  # type: ignore[assignment]
    hue, lightness, saturation = colorsys.rgb_to_hls(*rgb)
    coloured = saturation > 0.3
    if coloured and not area:
        while contrast(rgb, PAGE) < MIN_CONTRAST:
            lightness += 0.02
            rgb = colorsys.hls_to_rgb(hue, lightness, saturation)
        return rgb
    if coloured and lightness < 0.5:
        return rgb
    # Black becomes nearly white, and light areas become dark ones.
    _, darkest, _ = colorsys.rgb_to_hls(*PAGE)
    inverse = darkest + (1 - lightness) * (0.92 - darkest)
    return colorsys.hls_to_rgb(hue, min(inverse, 0.45) if coloured else inverse, saturation)


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.2)."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(rgb: Rgb) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _hex(rgb: Rgb) -> str:
    return "#" + "".join(f"{round(part * 255):02x}" for part in rgb)
