"""`losslab run`: seeds, verdicts in order, the commands that it prints, JUnit, and differences."""

import argparse
import struct
import xml.etree.ElementTree as ET

import pytest

from losslab import cli
from losslab.reading import UsageError
from losslab.runs import command, inguest, seeds
from losslab.runs.command import DIFFERING, FAILED, PASSED, End
from losslab.tools.run import run


def options(*words):
    parser = argparse.ArgumentParser()
    run.add_commands(parser.add_subparsers())
    return parser.parse_args(["run", *words])


class Fake:
    """A test whose seeds of `bad` fail; remembers which seeds ran."""

    def __init__(self, bad=()):
        self.bad, self.ran = bad, []

    def end(self, seed, _):
        self.ran.append(seed)
        bad = seed in self.bad
        return End(seed, int(bad), "exit status 1" if bad else "", b"x", 1.5,
                   FAILED if bad else PASSED)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "numbers"), [("7", [7]), ("1:4", [1, 2, 3, 4]), ("5,1:3,2", [5, 1, 2, 3])]
)
def test_seeds_are_numbers_and_ranges(text, numbers):
    assert seeds.parsed(text) == numbers


@pytest.mark.parametrize("text", ["", "x", "3:1", "1:2:3", "-1", "1:1000000", "1.5", "²"])
def test_other_seeds_are_refused(text):
    with pytest.raises(UsageError):
        seeds.parsed(text)


def test_seeds_end_in_their_order_and_stop_at_the_first_failure():
    fake = Fake(bad=[4, 6])
    ends = list(seeds.in_order(fake.end, range(1, 100), 2, lambda end: end.verdict != PASSED))
    assert [end.seed for end in ends] == [1, 2, 3, 4]
    assert len(fake.ran) < 99
    every = list(seeds.in_order(Fake(bad=[4]).end, range(1, 20), 3, lambda _: False))
    assert [end.seed for end in every] == list(range(1, 20))


def test_error_of_the_host_ends_all_seeds():
    with pytest.raises(ZeroDivisionError):
        list(seeds.in_order(lambda seed, _: 1 / 0, range(1, 10), 2, lambda _: False))


def test_printed_command_has_all_that_decides():
    words = ("--seeds", "1:9", "--bring", "a b", "--kernel", "7.2", "--limit-s", "5",
             "--date", "2026-08-01")  # fmt: skip
    given = options(*words, "--", "sh", "-c", "exit 1")
    printed = run.again(given, "--seeds", 3)
    assert printed == (
        "losslab run --seeds 3 --bring 'a b' --kernel 7.2 --limit-s 5 --date 2026-08-01 -- "
        "sh -c 'exit 1'"
    )
    assert options(*printed.replace("'", "").split()[2:4], "--", "sh").seeds == "3"


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-01", "1969-12-31", "2100-01-01", ""])
def test_other_dates_are_refused(text, capsys):
    with pytest.raises(SystemExit):
        options("--date", text, "--", "./test")
    assert f"must be a date from 1970-01-02 to 2099-12-31, such as 2026-08-01, found {text!r}" in (
        capsys.readouterr().err
    )


def test_junit_has_failures_errors_and_no_control_characters():
    ends = [
        End(1, 0, "", b"fine", 1.0, PASSED),
        End(2, 3, "exit status 3", b"\x1b[1mred\xff", 2.0, FAILED),
        End(3, None, "it spins", b"", 0.0, FAILED),
        End(4, 0, "run 2 differs", b"", 0.0, DIFFERING),
    ]
    root = ET.fromstring(run.junit(ends, options("--", "./test")))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "2", "1")
    kinds = [[child.tag for child in case if child.tag != "system-out"] for case in root]
    assert kinds == [[], ["failure"], ["error"], ["failure"]]
    assert root[1][0].text == "losslab run --seeds 2 -- ./test"


def test_failed_seed_runs_again_and_differs_if_its_bytes_do(monkeypatch):
    outputs = iter([b"one\ntwo\n", b"one\nthree\n"])
    monkeypatch.setattr(
        command.Test, "once", lambda *_: End(1, 1, "exit status 1", next(outputs), 1.0)
    )
    test = command.Test(("x",), None, None, 1.0, 1.0)
    end = test.end(1, None)
    assert (end.verdict, end.why) == (
        DIFFERING, "run 2 of this seed ended in another way than run 1: line 2 of the output"
    )  # fmt: skip


def test_passed_seed_runs_as_often_as_asked_for(monkeypatch):
    ran = []
    monkeypatch.setattr(
        command.Test, "once", lambda *_: ran.append(1) or End(1, 0, "", b"", 1.0, PASSED)
    )
    assert command.Test(("x",), None, None, 1.0, 1.0, repeat=3).end(1, None).verdict == PASSED
    assert len(ran) == 3


def test_first_difference_ignores_times_unless_nothing_else_differs():
    one = End(1, 0, "", b"same", packets=["0.1\ta", "0.2\tb"])
    late = End(2, 0, "", b"same", packets=["0.1\ta", "0.3\tb"])
    other = End(3, 0, "", b"same", packets=["0.1\ta", "0.3\tc", "0.4\td"])
    assert command.first_differences(one, one) == []
    assert command.first_differences(one, late)[0] == "packet 2 differs in its time:"
    assert command.first_differences(one, other) == [
        "packet 2 differs:", "  both  0.1 s a", "  A     0.2 s b", "  B     0.3 s c",
        "  B     0.4 s d",
    ]  # fmt: skip


def test_packets_have_names_for_what_the_kernel_draws():
    def tcp(source, target, begin, acked, flags, data=0):
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + data, 0, 0, 64, 6, 0, b"\x7f\0\0\1",
                         b"\x7f\0\0\1")  # fmt: skip
        return ip + struct.pack("!HHIIBBHHH", source, target, begin, acked, 5 << 4, flags, 0, 0, 0)

    texts = []
    for port, first in ((40000, 2**32 - 1), (51234, 77)):
        names = inguest.Names()
        texts.append([
            names.packet(tcp(port, 80, first, 0, 0x02), 40, inguest.IPV4),
            names.packet(tcp(80, port, 500, first + 1 & 2**32 - 1, 0x12), 40, inguest.IPV4),
            names.packet(tcp(port, 80, first + 1 & 2**32 - 1, 501, 0x18, 9), 49, inguest.IPV4),
        ])  # fmt: skip
    assert texts[0] == texts[1]
    assert texts[0][2] == "127.0.0.1:port1 > 127.0.0.1:80 TCP PA seq 1 ack 1, 9 bytes"
    assert inguest.Names().packet(b"\x45", 1, inguest.IPV4) == "protocol 0x0800, 1 bytes"
    assert inguest.Names().packet(b"", 28, 0x0806) == "protocol 0x0806, 28 bytes"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "must have a command"),
        (("--seeds", "3:1", "--", "true"), "range of seeds"),
        (("--diff", "1", "2", "--junit", "x.xml", "--", "true"), "--diff"),
        (("--bring", "/nowhere", "--", "true"), "found none at /nowhere"),
        (("--image", "nosuch", "--", "true"), "image must be one of"),
        (("--kernel", "nosuch", "--", "true"), "kernel must be one of"),
        (("--limit-s", "0", "--", "true"), "limit_s"),
    ],
)
def test_wrong_input_is_refused_before_a_boot(capsys, monkeypatch, words, text):
    monkeypatch.setattr(command, "instrument", lambda **_: pytest.fail("it looked for a kernel"))
    assert cli.main(["run", *words]) == 2
    assert text in capsys.readouterr().err.replace("-s must", "_s must")


def test_command_must_be_in_the_image_or_among_the_files(tmp_path):
    (tmp_path / "root/usr/bin").mkdir(parents=True)
    (tmp_path / "root/usr/bin/sh").touch()
    (tmp_path / "files").mkdir()
    (tmp_path / "files/script").touch()
    where = tmp_path / "root", tmp_path / "files"
    command._require_command("sh", *where)
    command._require_command("/usr/bin/sh", *where)
    for name, text in (("bash", "in the image"), ("/bin/x", "in the image"),
                       ("./no", "files of --bring"), ("./script", "executable")):  # fmt: skip
        with pytest.raises(UsageError, match=text) as caught:
            command._require_command(name, *where)
        assert caught.value.hint
