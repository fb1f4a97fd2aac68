"""A replicate of an archive that is run again: what is said of its bytes, without a guest."""

import json
import shutil
from types import SimpleNamespace

import pytest

from losslab.artifact import sampling
from losslab.campaign import rerun
from tests import sealed
from tests.unit.study.test_condition import CONDITION

MANIFEST = {
    "cell": CONDITION.to_json(), "seed": 1, "backend": "virtual", "instrument": {"image": "a"},
    "valid": True, "reasons": [], "summary": {"goodput_mbit": 1},
}  # fmt: skip
FILES = {"tcp.csv": "t_s\n1\n", "sender.log": "done\n"}


@pytest.fixture
def archived(tmp_path, monkeypatch):
    """A replicate, and a guest that always gives the same."""
    honest = sealed.replicate(tmp_path / "honest", MANIFEST, FILES)

    def run(condition, seed, out, *_, **__):
        shutil.copytree(honest, out)
        return json.loads((out / "manifest.json").read_text())

    monkeypatch.setattr(rerun, "run", run)
    monkeypatch.setattr(rerun, "instrument", lambda *_: SimpleNamespace())
    return lambda files=FILES, **changes: sealed.replicate(
        tmp_path / "archived", MANIFEST | changes, files
    )


def test_the_same_bytes_are_no_difference_also_where_a_raw_file_is_a_digest_alone(archived):
    folder = archived()
    assert sampling.run_again(folder, trust=False) == ""
    (folder / "tcp.csv").unlink()
    assert sampling.run_again(folder, trust=False) == ""
    keep = folder.parent / "kept"
    assert sampling.run_again(folder, trust=False, keep=keep) == ""
    assert (keep / "tcp.csv").read_text() == FILES["tcp.csv"]


@pytest.mark.parametrize(
    ("made_up", "found"),
    [
        ({"files": FILES | {"tcp.csv": "t_s\n2\n"}}, "tcp.csv: another file"),
        ({"files": {"tcp.csv": FILES["tcp.csv"]}}, "sender.log: on one side only"),
        ({"valid": False, "reasons": ["made up"]}, "manifest.json: another reasons"),
        ({"lost": True}, "manifest.json: another lost"),
        (
            {"instrument": {"image": "b"}},
            "manifest.json: another instrument; another instrument: instrument: image was b, is a",
        ),
    ],
)
def test_what_was_made_up_is_named(archived, made_up, found):
    assert sampling.run_again(archived(**made_up), trust=False) == found


def test_a_digest_of_a_file_that_is_not_there_must_be_the_second_runs(archived):
    folder = archived(FILES | {"tcp.csv": "t_s\n2\n"})
    (folder / "tcp.csv").unlink()
    assert sampling.run_again(folder, trust=False) == "tcp.csv: another file"
