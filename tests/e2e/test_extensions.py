"""Own modules, kernels and images in a campaign's folder, or in an installed package."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from losslab.instrument import image

LINK = ("--rate-mbit", "20", "--rtt-ms", "20", "--buffer-packets", "50", "--warmup-s", "0.2")
PATCH = """\
--- a/net/ipv4/tcp_cubic.c
+++ b/net/ipv4/tcp_cubic.c
@@ -1 +1,2 @@
+/* Mine. */
 // SPDX-License-Identifier: GPL-2.0-only
"""


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
    folder = tmp_path_factory.mktemp("extensions") / "campaign"
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


def install(folder, point, text):
    """Install a package `theirs` with one module, and an entry point, GROUP.NAME = REST."""
    group, _, name = point.partition(" = ")[0].rpartition(".")
    info = folder / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: theirs\nVersion: 1\n")
    value = point.partition(" = ")[2]
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    (folder / "theirs").mkdir()
    (folder / "theirs" / "__init__.py").touch()
    (folder / "theirs" / "given.py").write_text(text)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    return elsewhere


def test_installed_package_adds_an_app_by_its_entry_point(campaign, tmp_path):
    text = (campaign / "apps" / "mine.py").read_text().replace("mine", "given")
    elsewhere = install(tmp_path, "losslab.apps.given = theirs.given", text)
    more = ("--app", "given", "--given-kb", "200", "--duration-s", "1")
    its, _ = measured(elsewhere, *LINK, *more, path=tmp_path)
    assert its["summary"]["bytes_received"] == 200_000


def own_kernel(campaign, text='series = "6.12"\n', **files):
    folder = campaign / "kernels" / "mine"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "kernel.toml").write_text(text)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)


def test_own_kernel_measures_with_its_boot_parameters(campaign):
    """Boot parameters need no build: the kernel is the default one."""
    own_kernel(campaign, 'series = "6.12"\nlabel = "Mine"\nboot = ["tcp_cubic.beta=300"]\n')
    path = (*LINK, "--loss-percent", "0.3", "--duration-s", "3")
    found = [measured(campaign, *path, "--kernel", name)[0] for name in ("default", "mine")]
    assert "boot" not in found[0]["instrument"]["kernel"]
    assert found[1]["instrument"]["kernel"]["boot"] == ["tcp_cubic.beta=300"]
    default, mine = (its["summary"]["goodput_mbit"] for its in found)
    assert mine < 0.95 * default


@pytest.mark.skipif(image.part("rsync").existing() is None, reason="losslab image --variant rsync")
def test_own_image_has_its_programs(campaign):
    """Its recipe is that of the image rsync, so it is built already."""
    shutil.copytree(image.recipe("rsync"), campaign / "images" / "mine")
    serve = "printf '[into]\\npath=/tmp\\nread only=no\\nuse chroot=no\\nuid=0\\n' >conf; "
    serve += "exec rsync --daemon --no-detach --config=conf"
    send = "rsync /bin/true rsync://$RECEIVER:873/into/"
    more = ("--app", "command", "--receiver-command", serve, "--sender-command", send)
    its, _ = measured(campaign, *LINK, *more, "--image", "mine", "--duration-s", "2")
    assert its["instrument"]["image"]["hash"] == image.content_hash("rsync")
    assert its["instrument"]["image"]["packages"]["rsync"]


@pytest.mark.nightly
def test_own_kernel_with_a_patch_and_a_symbol_is_built(campaign):
    """This takes ten minutes of CPU time."""
    own_kernel(campaign, mine__patch=PATCH, fragment__config="CONFIG_TCP_CONG_YEAH=y\n")
    done = losslab(campaign, "kernel", "--name", "mine")
    assert done.returncode == 0, done.stderr
    assert "CONFIG_TCP_CONG_YEAH=y" in Path(done.stdout.strip(), "config").read_text().splitlines()
    its, _ = measured(campaign, *LINK, "--kernel", "mine", "--duration-s", "1")
    assert its["instrument"]["kernel"]["patches"][-1] == "mine.patch"
    assert its["instrument"]["kernel"]["name"] == "mine"


@pytest.mark.nightly
def test_own_image_is_pinned_and_built(campaign):
    folder = campaign / "images" / "mine"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "packages.txt").write_text("netcat-openbsd\n")
    for words in (("--relock",), ()):
        done = losslab(campaign, "image", "--variant", "mine", *words)
        assert done.returncode == 0, done.stderr
    more = ("--app", "command", "--receiver-command", "nc -l 5000 >/dev/null", "--sender-command",
            'bash -c "head -c 1000000 /dev/zero >/dev/tcp/$RECEIVER/5000"',
            "--duration-s", "2")  # fmt: skip
    its, _ = measured(campaign, *LINK, *more, "--image", "mine")
    assert its["instrument"]["image"]["packages"]["netcat-openbsd"]


LAB = """
from losslab.backends.virtual import Guest

class Lab(Guest):
    def ready(self, image_root, condition):
        return {"where": "lab"}
"""


def test_installed_package_adds_a_backend_by_its_entry_point(tmp_path):
    folder = install(tmp_path, "losslab.backends.lab = theirs.given:Lab", LAB)
    its, _ = measured(folder, *LINK, "--duration-s", "1", "--where", "lab", path=tmp_path)
    assert (its["backend"], its["instrument"]["where"]) == ("virtual", "lab")
    assert its["valid"]
    assert "own modules" in its["fingerprint"]["parts"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("lab", "class Lab:\n    needs = 5\n", "must be a backend with Needs"),
        ("lab", "import nothing_of_this_name\n", "must be a backend, found ModuleNotFoundError"),
        ("guest", LAB, "a backend must have a new name of lower-case letters"),
    ],
)
def test_broken_backend_is_named_without_a_traceback(name, text, words, tmp_path):
    folder = install(tmp_path, f"losslab.backends.{name} = theirs.given:Lab", text)
    done = losslab(folder, "measure", "--algorithm", "cubic", "--out", "x", path=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("losslab: error: ")
    assert words in done.stderr
    assert f"the entry point {name} = theirs.given:Lab of losslab.backends" in done.stderr


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("apps/mine.py", "import nothing_of_this_name\n", "must import only Python's standard lib"),
        ("schemes/mine.py", "import sys\nsys.exit(1)\n", "must be importable, found at line 2: S"),
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
