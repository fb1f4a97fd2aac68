"""Parameters of congestion controls: the axis, its short forms, and what they may be."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab import cellspec
from losslab.errors import LosslabError
from losslab.reading import UsageError, code, module_parameters
from losslab.repository import ROOT
from losslab.study import parameters, schemas, studyfiles
from losslab.study.condition import Condition, seed_of
from losslab.study.names import parameters_of

NAME = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True)
KEY = st.from_regex(r"[a-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
VALUE = st.from_regex(r"-?[0-9]{1,4}(,-?[0-9]{1,3}){0,2}|[YN]|[a-z]{2}[.0-9]{0,2}", fullmatch=True)
ITS = st.dictionaries(KEY, VALUE, min_size=1, max_size=3)
SOURCE = """\
/* module_param(no, int, 0644); */
static int gain __read_mostly = 2; module_param(gain, int, 0644);
static bool fast; module_param_named(quick, fast, bool, S_IRUGO | S_IWUSR);
static int steps[2] = { 1, 2 }; module_param_array(steps, int, NULL, 0644);
static uint hidden = 3; module_param(hidden, uint, 0);
static uint set; module_param_cb(shift, &ops, &set, 0644);
"""


def short(name, its):
    return ",".join([name, *(f"{key}={value}" for key, value in its.items())])


@given(st.dictionaries(NAME, ITS, min_size=1, max_size=3))
def test_text_of_parameters_is_read_back(its):
    text = parameters.to_text(its)
    assert parameters.parse(text) == its
    assert Condition(algorithm="cubic", parameters=text).parameters == text
    assert len([*parameters.boot_words(text)]) == sum(map(len, its.values()))


@given(NAME, ITS)
def test_short_form_is_the_axis_and_the_name(name, its):
    condition = Condition(algorithm=short(name, its))
    expected = parameters.to_text({name: its})
    assert (condition.algorithm, condition.parameters) == (name, expected)
    assert condition == Condition(algorithm=name, parameters=expected)
    assert condition == Condition.from_json(condition.to_json())
    assert [*studyfiles.block_grid({"defaults": {}}, {"algorithm": short(name, its)})] == [
        {"algorithm": name, "parameters": expected}
    ]


@given(st.lists(st.builds(short, NAME, ITS | st.just({})), min_size=1, max_size=4))
def test_list_of_algorithms_is_split_at_their_names(names):
    assert parameters.algorithms(",".join(names)) == names


@given(st.text(max_size=20))
def test_any_other_text_is_refused_without_a_traceback(text):
    for axis in ("algorithm", "competitor", "flows", "parameters"):
        try:
            Condition.from_json({"algorithm": "cubic", axis: f"cubic{text}"}).problems()
        except LosslabError as error:
            assert error.message


def test_parameters_of_flows_and_of_the_axis_are_those_of_their_algorithms():
    flows = "bbr,count=2,a=1+same,b=2+reno"
    condition = Condition(algorithm="cubic,b=2", flows=flows, parameters="x.c=3")
    assert condition.flows == "bbr,count=2+same+reno"
    assert condition.parameters == "bbr.a=1+cubic.b=2+x.c=3"
    condition = Condition(algorithm="mine", flows="mine,gain=3", parameters="mine.gain=3")
    assert (condition.flows, condition.parameters) == ("mine", "mine.gain=3")


def test_parameters_in_a_studys_named_flows_are_those_of_the_point():
    study = {"defaults": {}, "flows": {"two": [{"algorithm": "bbr,x=1", "count": 2}]}}
    [point] = studyfiles.block_grid(study, {"algorithm": "cubic,beta=2", "flows": "two"})
    assert point == {
        "algorithm": "cubic", "flows": "bbr,count=2", "parameters": "bbr.x=1+cubic.beta=2"
    }  # fmt: skip
    wrong = schemas.problems(study, "study")
    assert not [problem for problem in wrong if problem.startswith("flows")]


def test_cells_that_differ_only_in_parameters_are_paired_and_others_keep_their_seeds():
    plain = Condition(algorithm="cubic")
    other = replace(plain, parameters="cubic.hystart=0")
    assert seed_of(plain, 3) == seed_of(other, 3)
    assert other.slug() == f"{plain.slug()}_cubic.hystart0"


def test_parameters_of_a_source_have_type_default_and_mode():
    assert module_parameters(code(SOURCE)) == [
        ("gain", "int", "2", "0644"),
        ("quick", "bool", "0", "S_IRUGO | S_IWUSR"),
        ("steps", "int[]", "{ 1, 2 }", "0644"),
        ("hidden", "uint", "3", "0"),
        ("shift", "", "0", "0644"),
    ]


@pytest.fixture
def mine(campaign_folder):
    folder = campaign_folder / "algorithms" / "mine"
    folder.mkdir(parents=True)
    (folder / "tcp_mine.c").write_text(SOURCE)
    (folder / "algorithm.toml").write_text(
        'registers = "mine"\nsources = ["tcp_mine.c"]\n'
        '[parameters]\ngain = { type = "int", range = "[1, 10]" }\n'
    )
    table = (ROOT / "config" / "algorithms.tsv").read_text()
    (campaign_folder / "config").mkdir(exist_ok=True)
    (campaign_folder / "config" / "algorithms.tsv").write_text(
        f"{table}mine\tMine\t#010203\t1\tdefault\n"
    )
    return folder


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("gian=3", "did you mean gain"),
        ("gain=11", r"must be in \[1, 10\], found 11"),
        ("quick=maybe", "must be one of 0, 1"),
        ("steps=1,x", "must be NAME or NAME,PARAMETER"),
        ("hidden=1", "must have a file"),
    ],
)
def test_impossible_parameters_of_an_own_algorithm_are_refused(mine, setting, problem):
    with pytest.raises(UsageError, match=problem):
        cellspec.condition({"algorithm": f"mine,{setting}"})


def test_possible_parameters_are_accepted_and_those_of_a_machines_own_kernel_are_not(mine):
    text = "mine,gain=10,quick=Y,steps=3,4,shift=any"
    assert cellspec.condition({"algorithm": text}).algorithm == "mine"
    cellspec.condition({"algorithm": "cubic", "flows": "mine,gain=1,count=3"})
    # A parameter may be similar to a key of flows.
    cellspec.condition({"algorithm": "bbr", "flows": "cubic,hystart=0,count=9"})
    cellspec.condition({"algorithm": "cubic,bic_scale=40", "competitor": "mine,gain=2"})
    with pytest.raises(UsageError, match="none with where: host"):
        cellspec.condition({"algorithm": "cubic,beta=3"}, own_kernel=True)


def test_parameter_that_a_macro_declares_is_known_from_algorithm_toml(mine):
    source, file = mine / "tcp_mine.c", mine / "algorithm.toml"
    source.write_text("#define P(x) module_param(x, int, 0644)\nP(alpha);\n" + SOURCE)
    with pytest.raises(UsageError, match="found alpha"):
        cellspec.condition({"algorithm": "mine,alpha=3"})
    file.write_text(file.read_text() + 'alpha = "int"\nshift = "uint"\n')
    assert cellspec.condition({"algorithm": "mine,alpha=3"})
    for text in ("alpha=x", "shift=-1"):
        with pytest.raises(UsageError, match="must be a whole number"):
            cellspec.condition({"algorithm": f"mine,{text}"})


def test_range_of_a_parameter_that_the_source_lacks_is_refused(mine):
    file = mine / "algorithm.toml"
    file.write_text(file.read_text().replace("gain =", "gian ="))
    with pytest.raises(UsageError, match="gian"):
        parameters_of("mine")
