"""Results that somebody changed after the workflow wrote them, so that it makes them again.

Snakemake sees that an output is missing or older than its inputs, not that it was edited or
damaged. The ledger, a file in the workflow's own folder, knows each cell and table as it was left.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from losslab.campaign import integrity
from losslab.campaign.folder import CELL_FILE, replace_json
from losslab.instrument.archive import digest


class Ledger:
    """Results as the workflow left them; each is examined once per start at most.

    Attributes:
        found: What is not as it was left, by cell or file.
    """

    def __init__(self, path: Path) -> None:
        """Read the ledger's file; an unreadable one counts as empty, and everything is examined."""
        self._path = path
        self._entries: dict[str, dict[str, Any]] = {}
        self.found: dict[str, str] = {}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._entries = dict(json.loads(path.read_text()).items())
        self._examined: set[str] = set()
        self._written = self._text()

    def cell(self, folder: Path) -> str:
        """Return when a cell's files were last found damaged; empty if never.

        Only a cell whose files have other times, sizes or inodes than at its last examination is
        read as a whole.
        """
        name = str(folder)
        if name not in self._examined and (folder / CELL_FILE).is_file():
            state = integrity.state_of(folder)
            if self._entry(name).get("state") != state:
                self._note(name, integrity.cell_problems(folder))
                if name not in self.found:
                    self._entry(name)["state"] = state
        self._examined.add(name)
        return str(self._entry(name).get("changed", ""))

    def files(self, paths: Iterable[str | Path]) -> str:
        """Return when some of these files were last found changed; empty if never.

        A file that the ledger does not have, or that is missing, is nobody's change.
        """
        return max((self._file(Path(path)) for path in paths), default="")

    def _file(self, path: Path) -> str:
        name = str(path)
        entry = self._entry(name)
        if name not in self._examined and "sha256" in entry and path.is_file():
            changed = digest(path) != entry["sha256"]
            self._note(name, ["other bytes than the workflow wrote"] if changed else [])
        self._examined.add(name)
        return str(entry.get("changed", ""))

    def record(self, paths: Iterable[str | Path]) -> None:
        """Note these files as the workflow leaves them, where they are there, and write the ledger.

        Raises HostError if the ledger cannot be written.
        """
        for path in map(Path, paths):
            if path.is_file():
                self._entry(str(path))["sha256"] = digest(path)
        self.write()

    def write(self) -> None:
        """Write the ledger, if anything of it is new. Raises HostError if it cannot be written."""
        if self._text() != self._written:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_json(self._known(), self._path)
            self._written = self._text()

    def _known(self) -> dict[str, dict[str, Any]]:
        return {name: entry for name, entry in self._entries.items() if entry}

    def _text(self) -> str:
        return json.dumps(self._known(), sort_keys=True)

    def _entry(self, name: str) -> dict[str, Any]:
        return self._entries.setdefault(name, {})

    def _note(self, name: str, problems: list[str]) -> None:
        if problems:
            self.found[name] = problems[0]
            self._entry(name)["changed"] = datetime.now(UTC).isoformat(timespec="milliseconds")
