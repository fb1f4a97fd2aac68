"""Golden conditions: small replicates of every kind give the recorded bytes on every machine."""

import struct
from dataclasses import replace

import pytest

from bench import golden
from losslab.backends import snapshot_server
from losslab.instrument import image
from losslab.study.condition import AXES, Condition

RECORD = golden.load()
# Conditions that the default kernel refuses; every machine has that kernel.
OF_NEWER_KERNELS = ("--ecn accurate", "--queue dualpi2")
BACKENDS = sorted({g.backend for g in RECORD.conditions.values()})


@pytest.fixture(scope="session")
def runs(request, tmp_path_factory):
    """Measure the selected tests' conditions in parallel, in forks of one guest per instrument."""
    wanted = [item.callspec.params["name"] for item in request.session.items if _is_golden(item)]
    goldens = [RECORD.conditions[name] for name in wanted]
    can = [g for g in goldens if golden.cannot_measure(g) is None]
    with (
        snapshot_server.serving() as shared,
        golden.measuring(can, tmp_path_factory.mktemp("golden"), more=shared) as futures,
    ):
        yield futures


def _is_golden(item):
    return item.function is test_golden_bytes


@pytest.mark.parametrize("name", RECORD.conditions)
def test_golden_bytes(runs, name):
    recorded = RECORD.conditions[name]
    if reason := golden.cannot_measure(recorded):
        pytest.skip(reason)
    found = golden.digests(runs[name].result())
    assert golden.differences(recorded.sha256, found) == [], (
        f"python -m bench.golden --only {name} --keep FOLDER leaves the files to look at"
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_instrument_has_the_recorded_digests(backend):
    """Digests belong to one instrument and must be recorded again for another."""
    conditions = [g for g in RECORD.conditions.values() if g.backend == backend]
    reasons = [golden.cannot_measure(condition) for condition in conditions]
    if all(reasons):
        pytest.skip(str(reasons[0]))
    changes = golden.instrument_changes(RECORD, backend)
    assert changes == [], (
        f"instrument changed: record anew with `{golden.RECORD_COMMAND}` and explain what changed"
    )


def test_golden_conditions_cover_every_choice():
    """Every app, path, queue and other choice occurs at least once in virtual time."""
    words = [g.measure for g in RECORD.conditions.values() if g.backend == golden.VIRTUAL]
    assert len(words) >= 18
    wanted = [
        f"--{name.replace('_', '-')} {choice}"
        for name, its in AXES.items()
        for choice in its.choices
        if choice != its.default and f"--{name} {choice}" not in OF_NEWER_KERNELS
    ]
    wanted += [
        "--competitor", "--trace ", "--trace-back", "--scheme", "--sender-delay-ms",
        "--algorithm reno", "--algorithm bbr",
    ]  # fmt: skip
    # Choices that need another image: tests/e2e/test_programs.py.
    wanted.remove("--app quic")
    # The function of `--queue` makes these, too: tests/e2e/test_read_back.py.
    wanted = [each for each in wanted if not each.startswith("--reverse-queue")]
    assert [each for each in wanted if not any(each in line for line in words)] == []
    assert all(g.sha256 for g in RECORD.conditions.values() if g.backend == golden.VIRTUAL)


def test_byte_code_of_the_image_ignores_source_times():
    """A copied image has other times, and compiling takes longer than reading byte code."""
    root = image.part().existing() / "root"
    compiled = list(root.glob("usr/lib/python3*/**/*.pyc"))
    assert len(compiled) > 500
    # PEP 552: a 1 in the second word means a hash that is never checked.
    assert [p for p in compiled if struct.unpack("<4xI", p.read_bytes()[:8]) != (1,)] == []


def test_differences_name_changed_added_and_removed_files():
    recorded = {"same": "a", "other": "a", "old": "a"}
    found = {"same": "a", "other": "b", "young": "a"}
    assert golden.differences(recorded, found) == ["other differs", "young is new", "old is gone"]


def test_manifest_digest_is_by_part_and_without_the_instrument(tmp_path):
    for name, version in (("a", "1"), ("b", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "host.json").write_text(name)
        (tmp_path / name / "tcp.csv").write_text("t_s\n")
        (tmp_path / name / "manifest.json").write_text(
            f'{{"instrument": "{version}", "seed": 7, "summary": {{"goodput_mbit": {version}}}}}'
        )
    found = golden.differences(golden.digests(tmp_path / "a"), golden.digests(tmp_path / "b"))
    assert found == ["manifest.json: summary differs"]


def test_new_axis_keeps_digests_of_conditions_at_its_default(monkeypatch):
    plain = Condition("cubic").to_json()
    monkeypatch.setitem(AXES, "wobble_ms", replace(AXES["rtt_ms"], name="wobble_ms", default=0.0))
    known = golden.digested_axes(plain)
    assert golden.digested_axes(plain | {"wobble_ms": 0.0}) == known
    assert golden.digested_axes(plain | {"wobble_ms": 2.0}) == known | {"wobble_ms": 2.0}


def test_columns_of_unused_new_axes_are_left_out_of_digests(monkeypatch):
    monkeypatch.setitem(AXES, "wobble_ms", replace(AXES["rtt_ms"], name="wobble_ms", default=0.0))
    assert (
        golden.without_later_axes("n,wobble_ms,rtt_ms\n1,0.0,20\n2,,20\n")
        == "n,rtt_ms\n1,20\n2,20\n"
    )
    uneven = "n,wobble_ms,rtt_ms\n1,0.0,20\n2,3,20\n"
    assert golden.without_later_axes(uneven) == uneven
