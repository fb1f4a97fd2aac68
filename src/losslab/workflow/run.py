"""A run of Snakemake, which records the files that it made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from losslab.campaign import made


class Run:
    """A run of the workflow, from its start.

    Attributes:
        planned: The outputs of all jobs that the run is going to do.
    """

    def __init__(self, workflow: Any, config: Mapping[str, Any], root: Path) -> None:
        """Note the jobs; `workflow` is Snakemake's, `root` has the rules' sources."""
        self._workflow, self._config, self._root = workflow, config, root
        self._jobs = list(workflow.dag.needrun_jobs())
        self.planned = _outputs(self._jobs)
        self._by = made.maker(config, root)

    def record(self, work: Path, cells: list[str]) -> None:
        """Record the files that the run made, at its end; HostError if that fails."""
        workflow, by = self._workflow, made.maker(self._config, self._root)
        # `snakemake --touch` does no jobs, and changed sources may have made any file.
        true = by == self._by and not workflow.touch
        done = [job for job in self._jobs if true and workflow.dag.finished(job)]
        every = len(done) == len(self._jobs)
        outputs = made.expanded(_outputs(workflow.dag.jobs), cells) if every else None
        now = made.present(work, cells, by)
        ran = made.expanded(_outputs(done), cells)
        made.write(made.after_run(made.read(work), now, ran, outputs), work)


def _outputs(jobs: Iterable[Any]) -> set[str]:
    return {str(file) for job in jobs for file in job.output}
