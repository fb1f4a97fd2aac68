"""Snakemake logger with one line per stage (`--logger losslab`, the profile's default).

Loggers on PyPI show a bar per rule, without runs and cells, and write nothing for `losslab status`.
`.snakemake/log` has all of Snakemake's messages; the terminal shows them with `--verbose` or
`--printshellcmds`, and in a dry run.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import TracebackType

from snakemake.logging import ColorizingTextHandler, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from losslab.ui.console import Screen

# Snakemake's messages: useful information, an interrupt, and repetitions of a job's failure.
NOTHING = "Nothing to be done"
INTERRUPTED = "Terminating processes on user request"
REPEATED = (
    "RuleException:\nCalledProcessError",
    "Exiting because a job execution failed",
    "WorkflowError:\nAt least one job did not complete",
)


class LogHandler(LogHandlerBase):
    """Handler that passes messages to losslab's display, or to Snakemake's own handler."""

    # Properties that Snakemake reads: only this handler writes to the terminal.
    writes_to_stream = True
    writes_to_file = False
    has_filter = False  # use Snakemake's filter, which implements `--quiet`
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Choose the handler that shows messages."""
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        everything = settings.verbose or settings.printshellcmds or settings.debug_dag
        self._plain: logging.Handler | None = None
        if everything or settings.dryrun:
            formatter = DefaultFormatter(settings.quiet, settings.show_failed_logs)
            self._plain = ColorizingTextHandler(settings.nocolor, stream, formatter)
        self._screen = Screen(stream, Path())  # relative: Snakemake may change its directory
        sys.excepthook = self._top_level

    def _top_level(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Show an exception that Snakemake does not handle; an interrupt, without its traceback.

        Snakemake handles interrupts while jobs run. Planning a large campaign takes many seconds.
        """
        if issubclass(kind, KeyboardInterrupt):
            self._screen.say("losslab: interrupted")
        else:
            sys.__excepthook__(kind, error, trace)

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message if it is useful."""
        if self._plain is not None:
            self._plain.emit(record)
            return
        try:
            self._show(record)
        except Exception:  # like handlers of the standard library
            self.handleError(record)

    def _show(self, record: logging.LogRecord) -> None:
        event, fields = getattr(record, "event", None), record.__dict__
        if event == LogEvent.RUN_INFO:
            self._screen.plan(fields["stats"])
        elif event == LogEvent.JOB_INFO:
            if fields["rule_name"] == "all":
                self._screen.tally.targets = list(fields["input"])
            self._screen.start(fields["jobid"], fields["rule_name"], list(fields["output"]))
        elif event == LogEvent.JOB_FINISHED:
            self._screen.finish(fields["job_id"])
        elif event == LogEvent.JOB_ERROR:
            title = ", ".join(fields["output"]) or fields["rule_name"]
            self._screen.fail(fields["jobid"], title, list(fields["log"]))
        else:
            message = record.getMessage()
            serious = record.levelno >= logging.WARNING and not message.startswith(REPEATED)
            if message.startswith(INTERRUPTED):
                self._screen.interrupt()
            elif serious or message.startswith(NOTHING):
                self._screen.warn(message)

    def close(self) -> None:
        """Show the summary."""
        if self._plain is None:
            self._screen.end()
        super().close()
