import re
import subprocess
import sys

import pytest

from losslab import cli, doctor, new
from losslab.campaign.results import ALGORITHMS_FILE, write_json
from losslab.cellspec import UsageError
from losslab.extensions import MARK
from losslab.instrument import kernels
from losslab.new import ALGORITHMS
from losslab.reading import read_yaml
from losslab.repository import ROOT, __version__
from losslab.study import design, names
from losslab.study.names import load_algorithms
from tests.sources import tracked


@pytest.fixture
def copy(root, tmp_path):
    for part in (ROOT / "config" / "algorithms.tsv", kernels.source_of(new.TEMPLATE)):
        target = tmp_path / part.relative_to(root)
        target.parent.mkdir(parents=True)
        target.write_text(part.read_text())
    return tmp_path


def test_new_algorithm_adds_a_file_and_a_row(copy):
    table = copy / ALGORITHMS
    table.write_text(table.read_text().rstrip("\n"))
    path = new.new_algorithm("mine", "Mine", copy)
    assert str(path) == "algorithms/mine/tcp_mine.c"
    text = (copy / path).read_text()
    assert '.name\t\t= "mine"' in text
    assert "mine_cc_ssthresh" in text
    assert not re.search("template", text)
    rows = load_algorithms(copy / "config" / "algorithms.tsv")
    assert rows[-1]["name"] == "mine"
    assert rows[-1]["shape"] not in {row["shape"] for row in rows[:-1]}
    assert rows[-1]["colour"] == names.COLOURS[0]
    for name in ("a1", "a2", "a3", "a4"):
        new.new_algorithm(name, name, copy)
    rows = load_algorithms(copy / "config" / "algorithms.tsv")
    assert [row["name"] for row in rows[-4:]] == ["a1", "a2", "a3", "a4"]


def test_algorithm_of_a_run_is_restored_to_the_byte(copy):
    texts = {"algorithm.toml": 'registers = "mine"\n', "src/mine.c": "/* \udce9 */\n"}
    kept = copy / ALGORITHMS_FILE
    write_json({"mine": texts}, kept)
    assert str(new.restored("mine", "Mine", copy, kept)) == "algorithms/mine/algorithm.toml"
    assert (copy / "algorithms/mine/src/mine.c").read_bytes() == b"/* \xe9 */\n"
    assert load_algorithms(copy / ALGORITHMS)[-1]["name"] == "mine"


@pytest.mark.parametrize(
    ("name", "texts"), [("other", {}), ("mine", {"../x.c": ""}), ("mine", {"/x.c": ""}),
                        ("mine", {"x.c": 1}), ("mine", [])]
)  # fmt: skip
def test_kept_algorithm_outside_of_its_folder_or_missing_is_refused(copy, name, texts):
    write_json({"mine": texts}, copy / ALGORITHMS_FILE)
    with pytest.raises(UsageError, match="must be"):
        new.restored(name, "x", copy, copy / ALGORITHMS_FILE)
    assert len(list((copy / "algorithms").iterdir())) == 1


def test_every_algorithms_file_registers_its_folders_name():
    found = tracked("algorithms/*/*.c")
    assert len(found) >= 2
    for path in found:
        assert path == kernels.source_of(path.parent.name)
        assert f'"{path.parent.name}"' in path.read_text()


def test_new_study_is_a_valid_campaign(tmp_path, root, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert new._folder() == root
    assert f"writing to {root}" in capsys.readouterr().err
    (tmp_path / MARK).write_text("")
    assert cli.main(["new", "study", "mine", "--title", "My question"]) == 0
    (tmp_path / "campaign.yaml").write_text(
        "studies: { mine: { main: { replicates: 2, duration_s: 1, warmup_s: 0 } } }"
    )
    assert cli.main(["new", "mechanism", "fading"]) == 0
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    assert cli.main(["trust"]) == 0
    assert capsys.readouterr().out.endswith(": mechanisms/fading.py\n")
    code = (
        "from pathlib import Path; from losslab.reading import read_yaml;"
        "from losslab.workflow import Campaign;"
        "its = Campaign(read_yaml(Path('campaign.yaml')), []); print(*sorted(its.plan.cells));"
        "print([p for p in its.functions(['mine']) if 'fading_percent' in p.read_text()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("'mine'") == 4
    # R knows the axis of the folder's module.
    assert "[PosixPath('.snakemake/losslab/axes.R')]" in done.stdout
    assert "# My question {#sec-mine}" in (tmp_path / "studies/mine/chapter.qmd").read_text()
    left = [p for p in tmp_path.rglob("*") if "template" in p.name and ".snakemake" not in p.parts]
    assert left == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["loss"], "must be new, found"),
        (["My"], "must match"),
        (["../x"], "must match"),
        (["mine", "--title", "a `code`"], "must be a line of text"),
    ],
)
def test_invalid_study_is_refused(tmp_path, monkeypatch, capsys, words, problem):
    (tmp_path / MARK).write_text("")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", "study", *words]) == 2
    assert problem in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [MARK]


@pytest.mark.parametrize("variable", [True, False])
def test_algorithm_of_a_campaigns_folder_has_its_own_table(tmp_path, monkeypatch, variable):
    (tmp_path / MARK).write_text("")
    if variable:
        monkeypatch.setenv("LOSSLAB_FOLDER", str(tmp_path))
    else:
        monkeypatch.chdir(tmp_path)
    assert cli.main(["new", "algorithm", "mine"]) == 0
    names = [row["name"] for row in load_algorithms(tmp_path / ALGORITHMS)]
    assert (names[0], names[-1]) == ("cubic", "mine")


@pytest.mark.parametrize("name", ["int", "module", "tcp", "current", "for", "max", "sk"])
def test_keyword_or_identifier_of_the_kernel_is_only_a_part_of_identifiers(copy, name):
    text = (copy / new.new_algorithm(name, "Mine", copy)).read_text()
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    assert f'.name\t\t= "{name}"' in code
    for word in ("init", "ssthresh", "cong_avoid", "register", "ops"):
        assert f"{name}_cc_{word}" in code
    assert f"struct {name} " not in code


REFUSED = [
    *((name, "x", r"must (match|not be)")
      for name in ("", "Mine", "1st", "a b", "a-b", "a" * 16, "../x", "none")),
    *((name, "x", "must be new") for name in ("cubic", "template")),
    # Row E: `losslab new algorithm input` succeeded and could never compile.
    *((name, "x", f"the kernel's own net/ipv4/tcp_{name}.c")
      for name in ("input", "output", "timer", "plb", "ipv4")),
    # Row E: a tab in a label broke algorithms.tsv for every later command.
    *(("mine", label, "a label must be a line of text")
      for label in ("A\tB", "A\nB", "", " ", "\x1b[31m", '"A', "{x}", "A\\B")),
    ("mine", "CUBIC", "label must be new, found CUBIC"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "label", "words"), REFUSED)
def test_wrong_name_or_label_is_refused_and_changes_nothing(copy, name, label, words):
    table = (copy / ALGORITHMS).read_bytes()
    with pytest.raises(UsageError, match=words):
        new.new_algorithm(name, label, copy)
    assert (copy / ALGORITHMS).read_bytes() == table
    assert len(list((copy / "algorithms").iterdir())) == 1


def test_init_writes_a_valid_campaign_but_not_to_a_folder_with_files(tmp_path, capsys, monkeypatch):
    (tmp_path / "notes").write_text("mine")
    assert cli.main(["init", str(tmp_path)]) == 2
    assert "must be new or empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    folder = tmp_path / "my campaign"
    assert cli.main(["init", str(folder)]) == 0
    said = capsys.readouterr().out
    assert f"cd '{folder}' &&" in said
    assert (folder / MARK).is_file()
    assert (folder / "workflow/Snakefile").is_file()
    assert "profiles/default/profile.yaml" in said
    cells = design.load_cells(read_yaml(folder / "config" / "config.yaml"), ROOT)
    assert {cell.study for cell in cells} == {"loss"}
    monkeypatch.chdir(folder)
    assert cli.parser().parse_args(["cells"]).config == folder / "config/config.yaml"


def numbers(folder, *data):
    """Run the paper's script on a campaign's tables; return its status and output."""
    for name, text in zip(("statistics.csv", "claims.csv"), data, strict=True):
        (folder / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "paper/numbers.py", "statistics.csv", "claims.csv"], cwd=folder,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_paper_has_a_study_two_campaigns_and_its_numbers(tmp_path, monkeypatch):
    folder = tmp_path / "paper"
    assert cli.main(["init", str(folder), "--paper"]) == 0
    monkeypatch.chdir(folder)
    for name in ("quick", "config"):
        cells = design.load_cells(read_yaml(folder / f"config/{name}.yaml"), ROOT)
        assert [cell.study for cell in cells] == ["mine"] * 4
    head = "statistic_over,metric,algorithm,loss_percent,mean,mean_low,mean_high,n\n"
    rows = [f"replicates,goodput_mbit,{a},{p},9.96,9.91,10,5\n" for a in ("cubic", "bbr")
            for p in (0, 1)]  # fmt: skip
    claims = "claim,verdict\nmine-fills-the-link,reproduced\n"
    status, text = numbers(folder, head + "".join(rows), claims)
    assert status == 0, text
    assert (
        "\\newcommand{\\CubicClean}{10.0}\n\\newcommand{\\CubicCleanInterval}{9.9 to 10.0}" in text
    )
    assert "\\newcommand{\\ClaimFills}{reproduced}" in text
    used = set(re.findall(r"\\((?:Cubic|Bbr|Claim)\w+)", (folder / "paper/paper.tex").read_text()))
    assert used <= set(re.findall(r"newcommand{\\(\w+)}", text))
    assert len(used) == 8
    status, text = numbers(folder, head + rows[0], claims)
    assert status == 1
    assert "CubicLossy must name one cell or claim, found 0" in text


def test_workflow_of_the_paper_installs_all_packages_and_this_version(root):
    text = (root / "config/template/paper/.github/workflows/paper.yml").read_text()
    parts = ("build", "python", "analysis", "latex")
    needed = {name for part in parts for name in doctor.debian_packages(part)}
    assert needed - {*text.split()} == set()
    assert f"'losslab[campaign]=={__version__}'" in text
    assert "snakemake --cores 2 --configfile config/quick.yaml" in text


def test_template_of_the_paper_is_small():
    files = tracked("config/template/paper/*", ":(glob)config/template/paper/**/.*")
    assert sum(len(file.read_text().splitlines()) for file in files) <= 300
