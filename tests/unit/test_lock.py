import subprocess
import sys

import pytest

from losslab import lock
from losslab.errors import LosslabError

HOLD = (
    "import sys, time; from pathlib import Path; from losslab import lock\n"
    "lock.hold_for_life(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
)


def test_a_lock_ends_with_its_holder_however_it_ends(tmp_path):
    folder = tmp_path / "folder"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LosslabError, match="found another"):
        lock.hold_for_life(folder)
    holder.kill()
    holder.wait()
    lock.hold_for_life(folder)


def test_the_second_waits_for_the_first(tmp_path):
    wait = (
        "import sys; from pathlib import Path; from losslab import lock\n"
        "with lock.held(Path(sys.argv[1])): Path(sys.argv[1], 'second').touch()"
    )
    with lock.held(tmp_path):
        second = subprocess.Popen(
            [sys.executable, "-c", wait, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert "waiting for its end" in second.stdout.readline()
        assert not (tmp_path / "second").exists()
    assert second.wait() == 0
    assert (tmp_path / "second").exists()
