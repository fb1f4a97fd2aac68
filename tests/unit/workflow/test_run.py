"""Record of a run of the workflow, with a stand-in for Snakemake's object."""

from types import SimpleNamespace

import pytest

from losslab.campaign import made
from losslab.workflow import run

CELL = "results/cells/loss/a/cell.json"
TABLE, PAGE = "results/tables/a.csv", "results/report/report.html"


class Dag:
    """Stand-in for Snakemake's graph of jobs."""

    def __init__(self, *needed):
        self.jobs = [SimpleNamespace(output=[file]) for file in (CELL, TABLE, PAGE)]
        self.needed = [job for job in self.jobs if job.output[0] in needed]
        self.done = self.needed

    def needrun_jobs(self):
        return iter(self.needed)

    def finished(self, job):
        return job in self.done


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Do a run that needs the given files; return whether all is current after it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "analysis").mkdir()
    for file in (CELL, TABLE, PAGE):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")

    def record(*needed, touch=False, failed=(), during=lambda: None):
        dag = Dag(*needed)
        its = run.Run(SimpleNamespace(dag=dag, touch=touch), {}, tmp_path)
        assert its.planned == set(needed)
        during()
        dag.done = [job for job in dag.needed if job.output[0] not in failed]
        its.record(tmp_path, [CELL])
        return made.read(tmp_path).whole

    return record


def test_run_that_made_all_files_is_recorded(record):
    assert record(TABLE, PAGE)
    assert record(PAGE)


def test_failed_job_is_not_recorded(record):
    assert not record(TABLE, PAGE, failed=[PAGE])
    assert record(PAGE)


def test_touched_files_are_not_recorded(record):
    assert not record(TABLE, PAGE, touch=True)


def test_sources_changed_during_the_run_are_noticed(record, tmp_path):
    assert not record(TABLE, PAGE, during=lambda: (tmp_path / "analysis/a.R").write_text("1"))
