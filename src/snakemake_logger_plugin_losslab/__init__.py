"""Snakemake's messages as one line per stage (`--logger losslab`, the profile's default).

The plugins on PyPI show a bar per rule, without runs and cells, and write nothing for `losslab
status`. `.snakemake/log` has all messages of Snakemake; so has the screen with `--verbose` or
`--printshellcmds`, and in a dry run.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from snakemake.logging import ColorizingTextHandler, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from losslab.screen.console import Screen

# Snakemake's messages: information worth showing, an interrupt, and what repeats a failed job's.
NOTHING = "Nothing to be done"
INTERRUPTED = "Terminating processes on user request"
REPEATED = (
    "RuleException:\nCalledProcessError",
    "Exiting because a job execution failed",
    "WorkflowError:\nAt least one job did not complete",
)


class LogHandler(LogHandlerBase):
    """Passes messages to the screen, or to Snakemake's own handler."""

    # What Snakemake asks of every handler: this one is the only one that writes to the terminal.
    writes_to_stream = True
    writes_to_file = False
    has_filter = False  # Snakemake's, by which `--quiet` works
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Choose which of the two shows messages."""
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        everything = settings.verbose or settings.printshellcmds or settings.debug_dag
        self._plain: logging.Handler | None = None
        if everything or settings.dryrun:
            words = DefaultFormatter(settings.quiet, settings.show_failed_logs)
            self._plain = ColorizingTextHandler(settings.nocolor, stream, words)
        self._screen = Screen(stream, Path())  # relative: Snakemake may change its directory

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, if a reader wants it."""
        if self._plain is not None:
            self._plain.emit(record)
            return
        try:
            self._show(record)
        except Exception:  # as every handler of logging does
            self.handleError(record)

    def _show(self, record: logging.LogRecord) -> None:
        event, its = getattr(record, "event", None), record.__dict__
        if event == LogEvent.RUN_INFO:
            self._screen.plan(its["stats"])
        elif event == LogEvent.JOB_INFO:
            if its["rule_name"] == "all":
                self._screen.tally.targets = list(its["input"])
            self._screen.start(its["jobid"], its["rule_name"], list(its["output"]))
        elif event == LogEvent.JOB_FINISHED:
            self._screen.finish(its["job_id"])
        elif event == LogEvent.JOB_ERROR:
            what = ", ".join(its["output"]) or its["rule_name"]
            self._screen.fail(its["jobid"], what, list(its["log"]))
        else:
            message = record.getMessage()
            serious = record.levelno >= logging.WARNING and not message.startswith(REPEATED)
            if message.startswith(INTERRUPTED):
                self._screen.interrupt()
            elif serious or message.startswith(NOTHING):
                self._screen.warn(message)

    def close(self) -> None:
        """Say how it ended."""
        if self._plain is None:
            self._screen.end()
        super().close()
