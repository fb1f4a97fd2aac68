"""`losslab check`: its options, what fails, and the report."""

import pytest

from losslab import cli
from losslab.errors import LosslabError
from losslab.study.schemas import check_schema
from losslab_check import behaviour, check
from losslab_check.behaviour import CellChange, Difference

WORSE = Difference("x", "goodput_mbit", 8, 10, 9, 0.9, (0.88, 0.92), (-1.2, -0.8), 1e-6, 1e-5)
BETTER = Difference("x", "retransmits", 8, 0, 3, None, None, (2, 4), 1e-6, 1e-5)
QUIET = Difference("x", "goodput_mbit", 8, 10, 10.5, 1.05, (0.9, 1.2), (-1, 2), 0.4, 1.0)


def change(*differences, reasons=()):
    return CellChange("loss/cubic", [0, 2], 8, list(reasons), list(differences))


@pytest.mark.parametrize(
    ("fail_on", "count"), [(check.CHANGED, 2), (check.MOVED, 1), (check.WORSE, 1)]
)
def test_worse_metric_always_fails(fail_on, count):
    assert len(check.failures([change(WORSE, QUIET)], fail_on)) == count


def test_changed_bytes_alone_fail_by_default():
    quiet = [change(QUIET)]
    assert check.failures(quiet, check.CHANGED) == ["loss/cubic: 2 of 8 runs have other bytes"]
    assert check.failures(quiet, check.MOVED) == check.failures(quiet, check.WORSE) == []


def test_more_retransmissions_are_worse_and_less_are_not():
    assert len(check.failures([change(BETTER)], check.WORSE)) == 1
    less = Difference("x", "retransmits", 8, 9, 3, 0.3, None, (-7, -5), 1e-6, 1e-5)
    assert check.failures([change(less)], check.WORSE) == []
    assert len(check.failures([change(less)], check.MOVED)) == 1


def test_invalid_run_fails_in_any_case():
    found = check.failures([change(reasons=["the guest must power off"])], check.WORSE)
    assert found == ["loss/cubic: the guest must power off"]


def test_folders_of_a_program_need_each_other(tmp_path):
    options = cli.parser().parse_args(["check", "--bring", "x", "--out", str(tmp_path)])
    with pytest.raises(LosslabError, match="need each other"):
        options.run(options)


def data(*changed, **more):
    return {
        "format": 1, "suite": "ci", "change": ["tcp_cubic.c"],
        "replaced": ["net/ipv4/tcp_cubic.c"], "skipped": [], "cells": ["loss/cubic", "loss/bbr"],
        "same_kernel": [], "runs": 16, "changed": list(changed),
    } | more  # fmt: skip


def row(*differences, **more):
    [found] = behaviour.as_json([change(*differences)])
    return found | {"seed": 7, "first_difference": ["packet 3"], "command": "losslab ..."} | more


def test_report_of_no_change_is_short():
    text = check.markdown(data())
    assert text.startswith("**losslab check: no cell changed.** 2 cells, 16 runs.\n")
    assert len(text.splitlines()) == 3


def test_report_names_cells_metrics_intervals_and_first_differences():
    its = data(row(WORSE, BETTER, QUIET), skipped=["README"])
    check_schema(its, "check", "the report")
    text = check.markdown(its)
    assert "1 of 2 cells changed, 2 metrics moved significantly" in text
    assert "Goodput (Mbit/s)" in text
    assert "-10 %" in text
    assert "[-12, -8] %" in text
    assert "| +3 " in text
    assert "[+2, +4]" in text
    assert text.count("**worse**") == 2
    assert "Same bytes: loss/bbr." in text
    assert "`README`" in text
    assert "packet 3" in text
    assert "2 of 8 runs changed" in text


def test_report_names_cells_without_a_moved_metric():
    text = check.markdown(data(row(QUIET), same_kernel=["loss/bbr"]))
    assert "0 metrics moved" in text
    assert "no metric moved significantly: loss/cubic." in text
    assert "1 cells were not measured: their kernel has the same binary" in text


def test_missing_table_does_not_end_a_report(tmp_path):
    assert "not found" in check.parted(tmp_path, tmp_path)[0]
