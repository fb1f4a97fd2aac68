"""Readers accept valid input and refuse everything else with a `UsageError` (`bench.fuzz`)."""

import pytest
from hypothesis import HealthCheck, given, settings

from bench.fuzz import command, judging
from bench.fuzz.inputs import inputs
from bench.fuzz.readers import READERS, clear

# `python -m bench.fuzz` tries thousands. Slow readers get fewer inputs: all together take 10 s.
EXAMPLES = {"suite": 30, "manifest": 60, "campaign": 60, "study": 60, "samples": 40, "flows": 60}


@pytest.fixture(autouse=True, scope="module")
def _folder():
    yield
    clear()


@pytest.mark.parametrize("name", READERS)
def test_reader_accepts_its_valid_inputs(name):
    reader = READERS[name]
    assert {judging.judge(reader, each) for each in reader.seeds} == {judging.ACCEPTED}


@pytest.mark.parametrize("name", READERS)
def test_reader_accepts_values_in_range_or_refuses_them(name):
    reader = READERS[name]

    @settings(
        max_examples=EXAMPLES.get(name, 100), deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(inputs(reader.seeds, reader.form))
    def each(data):
        judging.judge(reader, data)

    each()


def read_as_float(data):
    return float(data)


@pytest.mark.parametrize("data", [b"inf", b"x"])
def test_reader_that_accepts_infinity_or_raises_is_a_violation(data):
    lax = judging.Reader("lax", [b"1"], read_as_float, judging.require_finite)
    with pytest.raises(judging.ViolationError, match="lax"):
        judging.judge(lax, data)


def test_hanging_reader_is_a_violation(monkeypatch):
    def never(data):
        while True:
            pass

    monkeypatch.setattr(judging, "LIMIT_S", 0.05)
    with pytest.raises(judging.ViolationError, match="CPU time"):
        judging.judge(judging.Reader("slow", [b"1"], never, judging.require_finite), b"1")


def test_fuzz_command_counts_and_locates_violations(capsys):
    assert command.main(["--examples", "40", "--only", "number", "seed"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["reader", "number", "seed", "all"]
    assert int(lines[-1].split()[1]) >= 40
    assert lines[-1].split()[4] == "0"
