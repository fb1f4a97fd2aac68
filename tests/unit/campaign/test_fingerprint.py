"""Parts of the fingerprints of cells; tests/e2e/test_staleness.py covers Snakemake."""

import dataclasses
from types import SimpleNamespace

import pytest

from losslab.campaign import fingerprint
from losslab.emulation.plan import FIRST_ENTRIES, make_plan
from losslab.instrument import image
from tests.unit.study.test_condition import CONDITION

TRACE = "stairs"
CELLS = {
    "bulk": (CONDITION, "virtual", "guest"),
    "containers": (CONDITION, "containernet", "guest"),
    "engine": (CONDITION, "containernet", "host"),
    "plain": (CONDITION, "virtual", "host"),
    "page": (dataclasses.replace(CONDITION, app="web"), "virtual", "guest"),
    "video": (dataclasses.replace(CONDITION, app="ffmpeg"), "virtual", "guest"),
    "drawn": (dataclasses.replace(CONDITION, trace="cellular"), "virtual", "guest"),
    "trace": (dataclasses.replace(CONDITION, trace=TRACE), "virtual", "guest"),
    "jitter": (dataclasses.replace(CONDITION, rtt_ms=20, jitter_ms=2), "virtual", "guest"),
    "thinned": (dataclasses.replace(CONDITION, ack_thinning=2), "virtual", "guest"),
    "schedule": (dataclasses.replace(CONDITION, changes="at_s=2,rate_mbit=5"), "virtual", "guest"),
    "background": (dataclasses.replace(CONDITION, flows="same"), "virtual", "guest"),
    "scheme": (
        dataclasses.replace(CONDITION, app="datagram", scheme="ewma,alpha=0.9"),
        "virtual",
        "guest",
    ),
}
ALL = set(CELLS)
IN_GUESTS = ALL - {"engine", "plain"}


@pytest.fixture(autouse=True)
def one_trace_and_an_empty_cache(campaign_folder):
    (campaign_folder / "config/traces").mkdir(parents=True)
    (campaign_folder / "config/traces" / TRACE).write_text("10\n")
    yield
    fingerprint._built.cache_clear()


def changed_parts(change):
    """Return the parts of each cell's fingerprint that a change affects."""
    before = {name: fingerprint.of(*cell).parts for name, cell in CELLS.items()}
    change()
    fingerprint._built.cache_clear()
    found = {
        name: fingerprint.differences(before[name], fingerprint.of(*cell).parts)
        for name, cell in CELLS.items()
    }
    return {name: parts for name, parts in found.items() if parts}


def test_every_value_of_a_condition_is_part_of_the_fingerprint():
    condition, *rest = CELLS["bulk"]
    other = dataclasses.replace(condition, buffer_packets=condition.buffer_packets + 1)
    parts = [fingerprint.of(each, *rest).parts for each in (condition, other)]
    assert fingerprint.differences(*parts) == ["condition"]


def test_cell_without_the_later_axes_keeps_its_fingerprint_and_its_plan():
    """The digest is that of a version that did not have these axes."""
    condition, *rest = CELLS["jitter"]
    later = dataclasses.replace(condition, jitter_distribution="normal")
    parts = [fingerprint.of(each, *rest).parts for each in (condition, later)]
    assert fingerprint.differences(*parts) == ["condition"]
    assert parts[0]["condition"] == "7174ff93d0e99f73"
    entries = [make_plan(each, 7).path_spec.more() for each in (condition, later)]
    assert entries[1] == entries[0] | {"jitter_distribution": "normal"}
    assert entries[0].keys() == FIRST_ENTRIES.keys()


def test_changed_part_changes_exactly_the_cells_that_use_it(campaign_folder, monkeypatch, tmp_path):
    hash_of, kernel = image.content_hash, fingerprint.kernel
    file = tmp_path / "ffmpeg_program.py"
    file.write_text("one")
    own = {"emulation/apps/ffmpeg_program.py": file}
    monkeypatch.setattr(fingerprint.extensions, "files", lambda: own)

    def engine():
        changed = lambda name: "x" if name == image.ENGINE else hash_of(name)  # noqa: E731
        monkeypatch.setattr(image, "content_hash", changed)

    def unpinned():
        part = lambda _: SimpleNamespace(existing=lambda: tmp_path, target=lambda pinned: tmp_path)  # noqa: E731
        monkeypatch.setattr(kernel, "part", part)
        monkeypatch.setattr(fingerprint.cache, "provenance", lambda _: {"version": "6.12.99"})

    trace = campaign_folder / "config/traces" / TRACE
    for change, part, cells in (
        (lambda: trace.write_text("10\n20\n"), "traces", {"trace"}),
        (lambda: file.write_text("two"), "own modules", {"video"}),
        (engine, "engine", {"containers", "engine"}),
        (lambda: monkeypatch.setattr(kernel, "content_hash", lambda *_: "x"), "kernel", IN_GUESTS),
        (unpinned, "kernel", IN_GUESTS),
    ):
        assert changed_parts(change) == {name: [part] for name in cells}
