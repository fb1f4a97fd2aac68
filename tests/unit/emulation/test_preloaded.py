"""Preloaded programs: started before they are needed."""

import os
import subprocess
import sys
import time

import pytest

from losslab.emulation import preloaded
from losslab.emulation.flows import Flow, Program
from losslab.errors import LosslabError

SAYS = """
import os, sys

def main(arguments):
    print("said", len(arguments), arguments[-1][:4], sys.stdin.read() == "", flush=True)
    print("complained", file=sys.stderr)
    return 3

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


class Here:
    """A host on this machine; it counts the programs that it starts."""

    pid = os.getpid()

    def __init__(self, folder):
        self.environment = os.environ | {
            "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"
        }
        self.started = []

    def popen(self, command, **streams):
        words = [sys.executable if word == "python3" else word for word in command]
        popen = subprocess.Popen(words, env=self.environment, **streams)
        self.started.append(popen)
        return popen


@pytest.fixture
def here(tmp_path):
    (tmp_path / "says.py").write_text(SAYS)
    (tmp_path / "collects.py").write_text("import gc\ndef main(_): return int(gc.isenabled())\n")
    (tmp_path / "breaks.py").write_text("raise RuntimeError('broken')")
    return Here(tmp_path)


def command(*arguments):
    return [*preloaded.PYTHON, "says", *arguments]


def test_preloaded_program_gets_arguments_and_streams(here, tmp_path):
    long = "x" * 300_000  # the arguments of many flows are as long
    with preloaded.hosts({"r1": here}, [("r1", "says")]) as ready:
        with (tmp_path / "log").open("wb") as log:
            popen = ready["r1"].popen(
                command("a", long), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        assert popen.wait(10) == 3
    assert (tmp_path / "log").read_text() == "said 2 xxxx True\ncomplained\n"
    assert here.started == [popen]


def test_preloaded_program_collects_no_garbage(here):
    """A collection reads the clock, and comes earlier or later with each import."""
    with preloaded.hosts({"r1": here}, [("r1", "collects")]) as ready:
        popen = ready["r1"].popen(
            [*preloaded.PYTHON, "collects"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert popen.wait(10) == 0


def test_preloaded_programs_output_can_be_piped(here, tmp_path):
    with (
        preloaded.hosts({"r1": here}, [("r1", "says")]) as ready,
        (tmp_path / "log").open("wb") as log,
    ):
        popen = ready["r1"].popen(
            command("a"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        )
        with popen.stdout:
            assert popen.stdout.read() == b"said 1 a True\n"


def test_preloaded_program_begins_once(here, tmp_path):
    streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with preloaded.hosts({"r1": here, "r2": here}, [("r1", "says"), ("r1", "says")]) as ready:
        loaded = list(here.started)
        with (tmp_path / "log").open("wb") as log:
            begun = [ready["r1"].popen(command("a"), stdout=log, **streams) for _ in range(3)]
            other = ready["r2"].popen(["true"], stdout=log, **streams)
        assert begun[:2] == loaded
        assert [popen.wait(10) for popen in (*begun, other)] == [3, 3, 3, 0]
    assert here.started == [*begun, other]


def test_unused_preloaded_program_is_ended(here):
    with preloaded.hosts({"r1": here}, [("r1", "says")]):
        time.sleep(0.1)
        assert here.started[0].poll() is None
    assert here.started[0].returncode is not None


def test_preloaded_program_ends_with_its_parent(here):
    script = (
        "import subprocess, sys\n"
        "from losslab.emulation import preloaded\n"
        "class Here:\n"
        "    def popen(self, command, **streams):\n"
        "        return subprocess.Popen([sys.executable, *command[1:]], **streams)\n"
        "each = preloaded._load(Here(), 'says')\n"
        "each.require()\n"
        "print(each.popen.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=here.environment, capture_output=True, text=True,
        check=True, timeout=30,
    )  # fmt: skip
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{int(done.stdout)}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{int(done.stdout)}")


def test_failing_import_of_a_preloaded_module_is_named(here, capfd):
    with (
        pytest.raises(LosslabError, match="breaks must be loaded within"),
        preloaded.hosts({"r1": here}, [("r1", "breaks")]),
    ):
        pass
    assert "broken" in capfd.readouterr().err


def test_python_programs_of_flows_are_preloaded():
    flow = Flow(
        name="page", algorithm="cubic", port=80,
        listener=Program("sender", [*preloaded.PYTHON, "says", "80"], "server.log"),
        caller=Program("receiver", ["curl", "http://10.0.1.1"], "client.log"),
    )  # fmt: skip
    assert preloaded.of_flows([flow]) == [("sender", "says")]
