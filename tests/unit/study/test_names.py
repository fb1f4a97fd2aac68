import dataclasses

import pytest

from losslab.errors import LosslabError
from losslab.reading import UsageError, read_yaml
from losslab.study import design, names
from losslab.study.condition import DEFAULT_KERNEL, replicate_seed
from losslab.study.names import Names
from tests.unit.study.test_condition import CONDITION

NAMES = Names(
    {"cubic": "default", "bbr": "default", "bbr3": "6.12-bbr3", "young": "7.2"},
    frozenset({"6.12", "6.12-bbr3", "7.2"}),
)


def condition(**values):
    return dataclasses.replace(CONDITION, **values)


@pytest.mark.parametrize(
    ("values", "kernel"),
    [
        ({}, DEFAULT_KERNEL),
        ({"kernel": "7.2"}, "7.2"),
        ({"algorithm": "bbr3"}, "6.12-bbr3"),
        ({"algorithm": "bbr3", "kernel": "6.12-bbr3"}, "6.12-bbr3"),
        ({"app": "quic", "flows": "bbr", "ack_thinning": 2}, DEFAULT_KERNEL),
        ({"competitor": "bbr3"}, "6.12-bbr3"),
        ({"competitor": "bbr3", "kernel": "6.12-bbr3"}, "6.12-bbr3"),
    ],
)
def test_algorithm_selects_its_kernel(values, kernel):
    assert NAMES.problems(condition(**values)) == []
    assert NAMES.kernel(condition(**values)) == kernel


def test_algorithms_of_different_kernels_are_refused():
    (problem,) = NAMES.problems(condition(algorithm="bbr3", competitor="young"))
    assert "algorithms must share one kernel" in problem


@pytest.mark.parametrize(
    "values",
    [
        {"queue": "dualpi2", "ecn": "accurate", "kernel": "7.2"},
        {"sysctl": "both:net.ipv4.tcp_rto_max_ms=1000", "kernel": "7.2"},
        {"sysctl": "both:net.ipv4.tcp_rto_min_us=1000"},
        {"ecn": "on"},
    ],
)
def test_value_that_the_kernel_can_measure_is_accepted(root, values):
    names = design.load_names(root)
    assert names.problems(condition(**values)) == []
    on_host = condition(**values | {"kernel": DEFAULT_KERNEL, "shaper": "tbf"})
    assert names.problems(on_host, own_kernel=True) == []


def test_exact_link_needs_a_kernel_of_losslab():
    [problem] = NAMES.problems(CONDITION, own_kernel=True)
    assert problem.startswith("shaper must be tbf or htb-netem with where: host, found link")
    assert NAMES.problems(CONDITION) == []


def test_kernels_change_names_but_not_seeds():
    other = condition(kernel="7.2")
    assert design.Cell("s", "b", other, None).name.endswith("_kernel-7.2")
    assert replicate_seed(other, 1) == replicate_seed(CONDITION, 1)


def test_algorithm_of_an_unknown_kernel_is_refused(root, tmp_path):
    (tmp_path / "config").mkdir()
    for name in ("kernels.toml", "algorithms.tsv"):
        (tmp_path / "config" / name).write_text((root / "config" / name).read_text())
    with (tmp_path / "config" / "algorithms.tsv").open("a") as file:
        file.write("mine\tMine\t#000000\t1\t5.4\n")
    with pytest.raises(LosslabError, match=r"kernel of mine .* found 5\.4"):
        design.load_names(tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('default = "6.12"', 'default = "5.4"', "found no 5.4"),
        ('series = "7.2"', 'series = "5.4"', "found no 5.4"),
        ('label = "Linux 7.2"', 'lable = "Linux 7.2"', "lable"),
        ('axis = "ecn"', 'axis = "enc"', r"needs\.1\.axis: .enc. is not one of"),
    ],
)
def test_malformed_declaration_is_named(root, tmp_path, before, after, words):
    path = tmp_path / "kernels.toml"
    path.write_text((root / "config" / "kernels.toml").read_text().replace(before, after, 1))
    with pytest.raises(LosslabError, match=words):
        design.load_kernels(path)


def test_declared_kernel_is_refused_on_the_host(root):
    study = read_yaml(root / "studies/loss/study.yaml")
    study["blocks"]["main"] = {"algorithm": "cubic", "kernel": "7.2"}
    run = {"replicates": 1, "duration_s": 5, "warmup_s": 1, "where": "host"}
    with pytest.raises(LosslabError, match=r"which uses this machine's kernel, found 7\.2"):
        design.study_cells(study, {"main": run}, NAMES)


# Minimum contrast of graphical objects with their background (WCAG 2.1, 1.4.11).
MIN_CONTRAST = 3.0


def contrast(colour):
    """Return a colour's contrast with white, from 1 to 21 (WCAG 2.2)."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


def test_colours_of_controls_differ_and_can_be_seen_on_white(root):
    rows = names.load_algorithms(root / "config" / "algorithms.tsv")
    colours = [*(row["colour"] for row in rows), *names.COLOURS]
    assert [each for each in colours if contrast(each) < MIN_CONTRAST] == []
    rows = names.drawn_controls(root / "config" / "algorithms.tsv")
    assert {"cubic", "ewma", "fixed"} <= {row["name"] for row in rows}
    colours = [row["colour"] for row in rows]
    assert len({*colours}) == len(colours)
    assert names.next_colour([]) == names.COLOURS[0]
    assert names.next_colour(names.COLOURS[:5]) == names.COLOURS[5]
    others = [names.next_colour(names.COLOURS)]
    assert names.next_colour([*names.COLOURS, *others]) not in {*names.COLOURS, *others}


def test_two_algorithms_with_one_name_or_colour_are_refused(tmp_path):
    path = tmp_path / "algorithms.tsv"
    head = "name\tlabel\tcolour\tshape\tkernel\n"
    row = "a\tA\t#0072B2\t1\tdefault\n"
    path.write_text(f"{head}{row}{row}")
    with pytest.raises(UsageError, match=r"names must be unique in .*, found a more"):
        names.load_algorithms(path)
    path.write_text(f"{head}a\t<img src=x onerror=y>\t#0072B2\t1\tdefault\n")
    with pytest.raises(UsageError, match="label"):
        names.load_algorithms(path)
    path.write_text(f"{head}{row}b\tB\t#0072B2\t2\tdefault\n")
    with pytest.raises(UsageError, match=r"colours must be unique in .*, found #0072B2") as error:
        names.load_algorithms(path)
    assert error.value.hint[-7:] == names.COLOURS[0]
