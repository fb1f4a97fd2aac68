"""Snakemake's messages as one calm line per stage (`--logger losslab`, the profile's default).

A plugin of our own: those on PyPI draw a bar per rule, know of jobs and not of runs and cells, and
leave nothing for `losslab status`. Snakemake's own words are all in `.snakemake/log`, and on screen
with `--verbose` or `--printshellcmds`, and in a dry run.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from snakemake.logging import ColorizingTextHandler, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from losslab.screen.console import Console

# Of Snakemake's words, one that is no warning and yet for a reader; what says that it was
# interrupted; and what comes after a failed job, of which all is said.
TOLD = "Nothing to be done"
INTERRUPTED = "Terminating processes on user request"
SAID = (
    "RuleException:\nCalledProcessError",
    "Exiting because a job execution failed",
    "WorkflowError:\nAt least one job did not complete",
)


class LogHandler(LogHandlerBase):
    """Passes events on to the console, or to Snakemake's own words."""

    def __post_init__(self) -> None:
        """Choose which of the two."""
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        everything = settings.verbose or settings.printshellcmds or settings.debug_dag
        self._plain: logging.Handler | None = None
        if everything or settings.dryrun:
            words = DefaultFormatter(settings.quiet, settings.show_failed_logs)
            self._plain = ColorizingTextHandler(settings.nocolor, stream, words)
        # Snakemake goes to its --directory later.
        self._console = Console(stream, Path())

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, if a reader wants it."""
        if self._plain is not None:
            self._plain.emit(record)
            return
        try:
            self._tell(record)
        except Exception:  # as every handler of logging does
            self.handleError(record)

    def _tell(self, record: logging.LogRecord) -> None:
        event, its = getattr(record, "event", None), record.__dict__
        if event == LogEvent.RUN_INFO:
            self._console.plan(its["stats"])
        elif event == LogEvent.JOB_INFO:
            if its["rule_name"] == "all":
                self._console.tally.targets = list(its["input"])
            self._console.start(its["jobid"], its["rule_name"])
        elif event == LogEvent.JOB_FINISHED:
            self._console.finish(its["job_id"])
        elif event == LogEvent.JOB_ERROR:
            what = ", ".join(its["output"]) or its["rule_name"]
            self._console.fail(its["jobid"], its["rule_name"], what, list(its["log"]))
        else:
            self._other(record.getMessage(), record.levelno >= logging.WARNING)

    def _other(self, words: str, serious: bool) -> None:
        if words.startswith(INTERRUPTED):
            self._console.interrupt()
        elif words.startswith(TOLD) or (serious and not words.startswith(SAID)):
            self._console.complain(words)

    def close(self) -> None:
        """Say how it ended."""
        if self._plain is None:
            self._console.end()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        """Yes: no other handler writes to the terminal."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """No."""
        return False

    @property
    def has_filter(self) -> bool:
        """No: Snakemake's, by which `--quiet` works."""
        return False

    @property
    def has_formatter(self) -> bool:
        """Yes: the console's words."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """No."""
        return False
