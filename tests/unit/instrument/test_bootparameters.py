"""Parameters of the kernel's command line: unknown ones are refused, others are read back."""

from dataclasses import replace

import pytest

from losslab.emulation.jobs import guest
from losslab.instrument import kernels
from losslab.reading import UsageError

BINARY = b"ELF\0tcp_mine.gain\0x\0tcp_mine.quiet\0tcp_other.gian\0printk.devkmsg=\0"


@pytest.fixture
def linux(tmp_path):
    (tmp_path / "linux").write_bytes(BINARY)
    return tmp_path / "linux"


def spec(*boot):
    return replace(kernels.default(), boot=boot)


def test_misspelt_parameter_is_refused_with_the_known_ones(linux):
    """A12: `tcp_mine.gian=3` was valid, with gain 1's bytes under gain 3's label."""
    with pytest.raises(UsageError, match=r"found tcp_mine\.gian=3.*gain, quiet; did you mean gain"):
        kernels.require_parameters(spec("tcp_mine.gian=3"), linux)
    with pytest.raises(UsageError, match="nothing is not one of them"):
        kernels.require_parameters(spec("nothing.gain=3"), linux)


@pytest.mark.parametrize(
    "word", ["tcp_mine.gain=3", "tcp-mine.quiet", "printk.devkmsg=on", "seccomp=on", "quiet"]
)
def test_known_parameter_is_accepted(linux, word):
    kernels.require_parameters(spec(word), linux)


def test_parameter_of_an_algorithm_that_the_kernel_lacks_has_no_effect(linux, campaign_folder):
    source = campaign_folder / "algorithms/own/tcp_own.c"
    source.parent.mkdir(parents=True)
    source.touch()
    kernels.require_parameters(spec("tcp_own.gain=3"), linux)
    with pytest.raises(UsageError):
        kernels.require_parameters(replace(spec("tcp_own.gain=3"), algorithms=(source,)), linux)


@pytest.mark.parametrize(
    ("word", "found", "count"),
    [
        ("tcp_mine.gain=3", "3\n", 0), ("tcp-mine.gain=0x3", "3\n", 0),
        ("tcp_mine.gain=3", "1\n", 1), ("tcp_mine.gain=abc", "1\n", 1),
        ("tcp_mine.gain=on", "Y\n", 0), ("tcp_mine.gain", "Y\n", 0),
        ("tcp_mine.gain=off", "Y\n", 1), ("tcp_mine.gain=abc", "abc\n", 0),
        ("seccomp=on", "1\n", 0), ("tcp_mine.hidden=3", "1\n", 0),
    ],
)  # fmt: skip
def test_parameter_that_reads_back_differently_is_a_violation(tmp_path, word, found, count):
    """A12: it was set and not read back."""
    file = tmp_path / "tcp_mine" / "parameters" / "gain"
    file.parent.mkdir(parents=True)
    file.write_text(found)
    assert len(list(guest.parameter_violations([word], tmp_path))) == count
