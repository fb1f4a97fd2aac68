"""Snakemake's logger plug-in `losslab`: the progress of a campaign instead of Snakemake's log.

`logger: losslab` in profiles/default/profile.yaml selects it. Snakemake writes its whole log to
.snakemake/log in any case. A dry run has Snakemake's own output, and so has a run with one of
Snakemake's options for its output, such as --verbose or --quiet.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from snakemake.logging import ColorizingTextHandler
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from losslab.campaign.results import CELL_FILE
from losslab.ui.progress import Job, Progress

# Beginnings of Snakemake's messages. Of its notes, the user needs these; all are in its log.
INTERRUPT = "Terminating processes"
SHOWN = ("Nothing to be done", "Will exit after", "Complete log")
# These repeat that a job failed, which the progress shows with the job's log.
REPEATED = (
    "RuleException", "Exiting because a job execution failed",
    "WorkflowError:\nAt least one job did not complete successfully",
)  # fmt: skip


class LogHandler(LogHandlerBase):
    """Shows the progress of a run of the workflow."""

    def __post_init__(self) -> None:
        """Choose between the progress and Snakemake's own output."""
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        own = (settings.dryrun, settings.verbose, settings.printshellcmds, settings.debug_dag)
        self.progress: Progress | None = None
        if any(own) or settings.quiet:
            self._snakemake = ColorizingTextHandler(settings.nocolor, stream)
        else:
            self.progress = Progress(stream, color=not settings.nocolor)

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record of Snakemake's log."""
        if self.progress is None:
            self._snakemake.setFormatter(self.formatter)
            self._snakemake.emit(record)
            return
        try:
            self._show(self.progress, record)
        except Exception:
            self.handleError(record)

    def _show(self, progress: Progress, record: logging.LogRecord) -> None:
        values = vars(record)
        match values.get("event"):
            case LogEvent.RUN_INFO:
                counts = values["stats"]
                # A module may give losslab's rules a prefix.
                cells = sum(n for rule, n in counts.items() if rule.endswith("measure_cell"))
                progress.begin(counts["total"], cells)
            case LogEvent.JOB_INFO:
                progress.start(values["jobid"], _job(values))
            case LogEvent.JOB_FINISHED:
                progress.finish(values["job_id"])
            case LogEvent.JOB_ERROR:
                progress.fail(values["jobid"])
            case LogEvent.GROUP_ERROR:
                progress.say(self.format(record), style="red")
            case None | LogEvent.ERROR:
                _say(progress, str(record.msg or ""), record.levelno)

    def close(self) -> None:
        """Remove the bar and print the last lines."""
        if self.progress is not None:
            self.progress.close()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        """Return True: it replaces Snakemake's own output."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Return False: Snakemake writes its log itself."""
        return False

    @property
    def has_filter(self) -> bool:
        """Return False: Snakemake drops what --quiet excludes."""
        return False

    @property
    def has_formatter(self) -> bool:
        """Return False: Snakemake formats the records that are shown as text."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """Return False: the graph of the rules is not shown."""
        return False


def _say(progress: Progress, text: str, level: int) -> None:
    """Show a message without an event if the user needs it."""
    if text.startswith(INTERRUPT):
        progress.interrupt()
    elif level >= logging.WARNING and not text.startswith(REPEATED):
        progress.say(text, style="red" if level >= logging.ERROR else "yellow")
    elif text.startswith(SHOWN):
        progress.say(text)


def _job(values: dict[str, object]) -> Job:
    """Return the job of a record."""
    outputs = [Path(str(path)) for path in _list(values["output"])]
    cells = [path for path in outputs if path.name == CELL_FILE]
    name = str(values["rule_msg"] or values["rule_name"])
    return Job(name, tuple(map(Path, map(str, _list(values["log"])))), cells[0] if cells else None)


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []
