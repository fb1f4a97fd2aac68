"""Small replicates of every kind leave the recorded bytes, on whatever machine this runs."""

import struct
from dataclasses import replace

import pytest

from bench import golden
from losslab.errors import LosslabError
from losslab.instrument import image
from losslab.study.condition import AXES, Condition

RECORD = golden.load()
# What the default kernel, which every machine has, refuses.
OF_NEWER_KERNELS = ("--ecn accurate", "--queue dualpi2")
BACKENDS = sorted({g.backend for g in RECORD.conditions.values()})


@pytest.fixture(scope="session")
def runs(request, tmp_path_factory):
    """Every condition that a test asks for, measured side by side."""
    wanted = [item.callspec.params["name"] for item in request.session.items if _is_golden(item)]
    goldens = [RECORD.conditions[name] for name in wanted]
    can = [g for g in goldens if golden.cannot_measure(g.backend) is None]
    with golden.measuring(can, tmp_path_factory.mktemp("golden")) as futures:
        yield futures


def _is_golden(item):
    return item.function is test_golden_bytes


@pytest.mark.parametrize("name", RECORD.conditions)
def test_golden_bytes(runs, name):
    recorded = RECORD.conditions[name]
    if reason := golden.cannot_measure(recorded.backend):
        pytest.skip(reason)
    found = golden.digests(runs[name].result())
    assert golden.differences(recorded.sha256, found) == [], (
        f"python -m bench.golden --only {name} --keep FOLDER leaves the files to look at"
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_instrument_is_the_recorded_one(backend):
    """Digests of another instrument prove nothing: they have to be recorded for this one."""
    if reason := golden.cannot_measure(backend):
        pytest.skip(reason)
    changes = golden.instrument_changes(RECORD, backend)
    assert changes == [], (
        f"instrument changed: record anew with `{golden.RECORD_COMMAND}` and explain what changed"
    )


def test_every_kind_is_there():
    """Apps, paths, queues and the other axes, each at least once in virtual time."""
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
    # Needs an image of its own: tests/e2e/test_programs.py.
    wanted.remove("--app quic")
    assert [each for each in wanted if not any(each in line for line in words)] == []
    assert all(g.sha256 for g in RECORD.conditions.values() if g.backend == golden.VIRTUAL)


def test_byte_code_of_the_image_counts_whatever_its_sources_times():
    """A copied image has other times; compiling again takes another time than reading."""
    root = image.existing() / "root"
    compiled = list(root.glob("usr/lib/python3*/**/*.pyc"))
    assert len(compiled) > 500
    # PEP 552: 1 in the second word stands for a hash that is never compared.
    assert [p for p in compiled if struct.unpack("<4xI", p.read_bytes()[:8]) != (1,)] == []


def test_another_recipe_is_another_instrument():
    then = golden.identity(golden.VIRTUAL)
    other = {**then, "kernel": {**then["kernel"], "hash": "0" * 16}}
    changes = golden.instrument_changes(replace(RECORD, instruments={"virtual": other}), "virtual")
    assert len(changes) == 1
    assert changes[0].startswith("kernel was 0000000000000000")


def test_differences_name_files_that_changed_came_or_went():
    recorded = {"same": "a", "other": "a", "old": "a"}
    found = {"same": "a", "other": "b", "young": "a"}
    assert golden.differences(recorded, found) == ["other differs", "young is new", "old is gone"]


def test_the_manifest_counts_by_parts_and_without_its_instrument(tmp_path):
    for name, version in (("a", "1"), ("b", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "host.json").write_text(name)
        (tmp_path / name / "tcp.csv").write_text("t_s\n")
        (tmp_path / name / "manifest.json").write_text(
            f'{{"instrument": "{version}", "seed": 7, "summary": {{"goodput_mbit": {version}}}}}'
        )
    found = golden.differences(golden.digests(tmp_path / "a"), golden.digests(tmp_path / "b"))
    assert found == ["manifest.json: summary differs"]


def test_a_new_axis_leaves_the_digests_of_conditions_that_do_without_it(monkeypatch):
    plain = Condition("cubic").to_json()
    monkeypatch.setitem(AXES, "wobble_ms", replace(AXES["rtt_ms"], name="wobble_ms", default=0.0))
    known = golden.said(plain)
    assert golden.said(plain | {"wobble_ms": 0.0}) == known
    assert golden.said(plain | {"wobble_ms": 2.0}) == known | {"wobble_ms": 2.0}


def test_columns_of_such_axes_are_left_out_of_tables(monkeypatch):
    monkeypatch.setitem(AXES, "wobble_ms", replace(AXES["rtt_ms"], name="wobble_ms", default=0.0))
    assert golden.without_later("n,wobble_ms,rtt_ms\n1,0.0,20\n2,,20\n") == "n,rtt_ms\n1,20\n2,20\n"
    uneven = "n,wobble_ms,rtt_ms\n1,0.0,20\n2,3,20\n"
    assert golden.without_later(uneven) == uneven


def test_the_record_is_written_as_it_is_read(tmp_path):
    path = tmp_path / "golden.yaml"
    golden.write(RECORD, path)
    assert golden.load(path) == RECORD
    assert path.read_bytes() == golden.FILE.read_bytes()


def test_a_misspelt_entry_is_refused(tmp_path):
    path = tmp_path / "golden.yaml"
    path.write_text("instruments: {}\nconditions: {web: {measure: --app web, digest: {}}}\n")
    with pytest.raises(LosslabError, match="digest"):
        golden.load(path)
