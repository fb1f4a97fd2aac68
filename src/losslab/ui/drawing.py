"""Plots for notebooks: the figures of the commands `plot` and `sweep`, or text without R."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from losslab.errors import LosslabError
from losslab.lock import own_folder
from losslab.reading import out_file
from losslab.ui import plot

WIDTH = 100  # of a plot in characters


@dataclass(frozen=True)
class Drawing:
    """A plot: text for terminals, and SVG for notebooks if R is installed."""

    text: str
    draw: Callable[[Path], None]  # to a file

    def __repr__(self) -> str:
        """Return the plot as text."""
        return self.text

    def _repr_html_(self) -> str:
        """Return the figure; without R the text, and what is missing."""
        with own_folder(Path(tempfile.gettempdir()), "losslab-drawing-") as folder:
            file = folder / "plot.svg"
            try:
                plot.require_drawable([file])
                self.draw(file)
            except LosslabError as error:
                return preformatted(f"{self.text}\n\nA figure was not drawn: {error}")
            _, _, svg = file.read_text().partition("<svg")
        return f"<svg{svg}"

    def save(self, file: str | Path) -> None:
        """Write the figure to a .svg, .png or .pdf file, which needs R."""
        path = out_file(file)
        plot.require_drawable([path])
        self.draw(path)


def preformatted(text: str) -> str:
    """Return text as HTML that keeps its lines."""
    return f'<pre style="line-height: 1.1">{html.escape(text)}</pre>'
