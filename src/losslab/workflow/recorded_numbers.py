"""The cells of a campaign whose numbers are recorded, so that it need not measure them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from losslab.campaign import recorded_numbers
from losslab.study.design import Cell


class RecordedNumbers:
    """Recorded numbers of a campaign's cells, as the rules need them."""

    def __init__(self, folder: str | None, cells: Iterable[Cell]) -> None:
        """Find the cells in a folder of recorded numbers, if the campaign names one.

        Raises UsageError if the folder has no record.
        """
        self._folder = None if folder is None else Path(folder)
        self._cells: set[recorded_numbers.Name] = set()
        if self._folder is not None:
            self._cells = recorded_numbers.available(self._folder, cells)

    def __contains__(self, name: recorded_numbers.Name) -> bool:
        """Return whether a cell's numbers are recorded."""
        return name in self._cells

    def files(self, study: str | None = None) -> list[str]:
        """List the files with numbers of a study's cells, or of all studies'."""
        studies = sorted({name for name, _ in self._cells if study in (None, name)})
        folder = self._folder
        return [str(recorded_numbers.file_of(folder, name)) for name in studies if folder]

    def option(self) -> list[str]:
        """Return the option that names the folder; none if no cell's numbers are recorded."""
        return ["--recorded", str(self._folder)] if self._cells else []

    def cells(self, wildcards: Any) -> list[str]:
        """Return the options of `losslab collect` for the recorded cells of a job's study."""
        names = [cell for study, cell in sorted(self._cells) if study == wildcards.study]
        if not names:
            return []
        return [*self.option(), "--from-record", *names]
