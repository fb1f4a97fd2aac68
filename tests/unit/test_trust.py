"""Code of a campaign's folder does not run on this machine before the user trusts the folder."""

import os
import subprocess
import sys

import pytest

from losslab import extensions

READING = (
    ("axes",), ("metrics",), ("columns",), ("doctor", "--help"), ("completion", "bash"),
    ("path", "from-tc", "path.sh"),
)  # fmt: skip


@pytest.fixture
def stranger(tmp_path):
    """Return a stranger's folder, whose modules and R files leave a trace if they run."""
    folder = tmp_path / "theirs"
    for kind in extensions.KINDS:
        (folder / kind).mkdir(parents=True)
        (folder / kind / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "path.sh").write_text("tc qdisc add dev eth0 root netem delay 50ms\n")
    (folder / "analysis" / "R").mkdir(parents=True)
    (folder / "analysis" / "R" / "theirs.R").write_text("stop()\n")
    (folder / extensions.MARK).touch()
    return folder


def losslab(folder, *words):
    environment = {k: v for k, v in os.environ.items() if k != extensions.VARIABLE}
    return subprocess.run(
        [sys.executable, "-m", "losslab.cli", *words], cwd=folder, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", READING, ids=lambda words: "-".join(words))
def test_t1_commands_that_read_run_no_module_of_a_strangers_folder(stranger, tmp_path, command):
    done = losslab(stranger, *command)
    assert not (tmp_path / "ran").exists()
    assert "apps/mine.py, mechanisms/mine.py, schemes/mine.py" in done.stderr
    assert "allow it with `losslab trust`" in done.stderr


def test_t1_figures_use_no_r_functions_of_a_strangers_folder(stranger, monkeypatch):
    monkeypatch.setenv(extensions.VARIABLE, str(stranger))
    from losslab.repository import ROOT
    from losslab.study import studyfiles

    def theirs():
        return [path for path in studyfiles.functions(ROOT, []) if path.name == "theirs.R"]

    assert not theirs()
    record = extensions._record_of_trust(stranger)
    extensions.trust(stranger)
    assert theirs()
    record.unlink()


def test_t1_trust_is_of_one_folder_and_ends_with_it(stranger):
    assert not extensions.trusted(stranger)
    extensions.trust(stranger)
    record = extensions._record_of_trust(stranger)
    assert extensions.trusted(stranger)
    # Another folder takes its place: a new mark, while the old one still has its inode.
    (stranger / extensions.MARK).rename(stranger / "old")
    (stranger / extensions.MARK).touch()
    assert not extensions.trusted(stranger)
    record.unlink()
