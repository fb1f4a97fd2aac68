"""Own apps, mechanisms and schemes in a campaign's folder, or in an installed package."""

import json
import os
import subprocess
import sys

import pytest

LINK = ("--rate-mbit", "20", "--rtt-ms", "20", "--buffer-packets", "50", "--warmup-s", "0.2")


def losslab(folder, *words, path=""):
    """Run losslab in a folder, with more modules to import from `path`."""
    return subprocess.run(
        [sys.executable, "-m", "losslab.cli", *words],
        capture_output=True, text=True, check=False, cwd=folder,
        env=os.environ | ({"PYTHONPATH": str(path)} if path else {}),
    )  # fmt: skip


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Return a campaign's folder with an own module of each kind."""
    folder = tmp_path_factory.mktemp("doors") / "campaign"
    assert losslab(folder.parent, "init", str(folder)).returncode == 0
    for kind, name in (("app", "mine"), ("mechanism", "broken"), ("scheme", "wide")):
        done = losslab(folder, "new", kind, name)
        assert done.returncode == 0, done.stderr
    return folder


def measured(folder, *words, path=""):
    """Measure a condition; return its manifest and what losslab printed."""
    out = folder / f"run-{len(list(folder.glob('run-*')))}"
    command = ("measure", "--algorithm", "cubic", *words, "--out", str(out))
    done = losslab(folder, *command, path=path)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "manifest.json").read_text()), done.stdout


def test_own_axes_and_metrics_are_listed(campaign):
    table = losslab(campaign, "axes").stdout
    assert "| `broken_percent` | % of packets | [0, 100) | `0` |" in table
    assert "`mine` (a transfer of `mine_kb`)" in table
    listed = losslab(campaign, "metrics").stdout
    assert "| `broken_packets` | packets | less | broken_percent |" in listed
    assert "| `mine_s` | s | less | mine |" in listed


def test_conflicting_axes_of_own_modules_are_refused(campaign):
    words = ("measure", "--algorithm", "cubic", "--out", "x")
    done = losslab(campaign, *words, "--broken-percent", "1", "--rtt-ms", "0")
    assert "broken_percent must be at their defaults with rtt_ms 0" in done.stderr
    done = losslab(campaign, *words, "--mine-kb", "5")
    assert "mine_kb 5.0 needs the app mine, found iperf3" in done.stderr


def test_own_mechanism_is_planned_read_back_and_counted(campaign):
    its, printed = measured(campaign, *LINK, "--broken-percent", "2", "--duration-s", "1")
    assert its["plan"]["promise"]["more"]["broken_percent"] == 2.0
    [line] = [q for q in its["observed"]["state"]["r2"]["qdiscs"] if q.get("dev") == "r2-receiver"]
    assert line["options"]["corrupt"]["corrupt"] == 0.02
    count = its["observed"]["traffic"]["others"]["broken"]
    assert its["summary"]["broken_packets"] == count > 0
    assert f"Corrupted packets             {count} packets" in printed


def test_own_app_runs_its_programs_and_has_its_metrics(campaign):
    more = ("--app", "mine", "--mine-kb", "500", "--duration-s", "1")
    its, printed = measured(campaign, *LINK, *more)
    assert its["summary"]["bytes_received"] == 500_000
    # 0.2 s at 20 Mbit/s, and some RTTs of 20 ms.
    assert 0.2 < its["summary"]["mine_s"] < 0.5
    assert "Transfer time" in printed


def test_own_scheme_sends_with_its_window(campaign):
    """The template's window, wider, on the same path."""
    path = ("--app", "datagram", *LINK, "--duration-s", "1")
    file = campaign / "schemes" / "wide.py"
    file.write_text(file.read_text().replace("2 + max(", "20 + max("))
    narrow, wide = (measured(campaign, *path, "--scheme", each)[0] for each in ("template", "wide"))
    found = [each["summary"]["goodput_mbit"] for each in (narrow, wide)]
    assert found[1] > 1.5 * found[0] > 0


def test_installed_package_adds_an_app_by_its_entry_point(campaign, tmp_path):
    (tmp_path / "theirs-1.dist-info").mkdir()
    (tmp_path / "theirs-1.dist-info" / "METADATA").write_text("Name: theirs\nVersion: 1\n")
    points = "[losslab.apps]\ngiven = theirs.given\n"
    (tmp_path / "theirs-1.dist-info" / "entry_points.txt").write_text(points)
    (tmp_path / "theirs").mkdir()
    text = (campaign / "apps" / "mine.py").read_text()
    (tmp_path / "theirs" / "given.py").write_text(text.replace("mine", "given"))
    (tmp_path / "theirs" / "__init__.py").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    more = ("--app", "given", "--given-kb", "200", "--duration-s", "1")
    its, _ = measured(elsewhere, *LINK, *more, path=tmp_path)
    assert its["summary"]["bytes_received"] == 200_000


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("apps/mine.py", "import nothing_of_this_name\n", "must be importable, found ModuleNotF"),
        ("apps/iperf3.py", "", "a module of apps must have a new name of lower-case letters and"),
        ("schemes/none.py", "", "must define one dataclass that is a Scheme, found 0"),
    ],
)
def test_broken_module_is_named_without_a_traceback(file, text, words, tmp_path):
    folder = tmp_path / "campaign"
    losslab(tmp_path, "init", str(folder))
    (folder / file).parent.mkdir()
    (folder / file).write_text(text)
    done = losslab(folder, "axes")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("losslab: error: ")
    assert words in done.stderr
    assert str(folder / file) in done.stderr
    assert "Traceback" not in done.stderr
