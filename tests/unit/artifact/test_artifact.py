"""Artifacts: what is drawn, what a sample is worth, what the description and the appendix say."""

import json
import math
import os
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from losslab import cli
from losslab.artifact import appendix, commits, crate, pack, results, sampling, statement, verify
from losslab.campaign import audit, verification
from losslab.errors import LosslabError
from tests.unit.study.test_condition import CONDITION

CLAIMS = """\
study,claim,sentence,source,published,measured,low,high,n,unit,tolerance,limit_is,limit_because,\
verdict,reason,unsupported,absent
loss,one,CUBIC loses | much.,slide 1,70,76.15,74.2,77.9,10,%,at least 70,theirs,,reproduced,,,
loss,two,BBR loses little.,slide 2,8,,NA,NA,0,%,at most 8,theirs,,not measured,,,
"""


RUNS = [
    results.Run(
        f"results/cells/loss/cell/{number}",
        {"kernel": {"version": "6.12.1", "hash": "0123", "pinned": True}},
        30.0,
    )
    for number in range(3)
]


@pytest.fixture
def campaign(tmp_path):
    """A part of an unpacked archive, with made-up files."""
    cell = tmp_path / "results/cells/loss/cell"
    for number in range(3):
        (cell / str(number)).mkdir(parents=True)
        (cell / str(number) / "tcp.csv").write_text(f"t_s\n{number}\n")
    (tmp_path / "results/claims.csv").write_text(CLAIMS)
    (tmp_path / "results/tables").mkdir()
    (tmp_path / "results/tables/origin.csv").write_text("part,what,cells\nmachine,A box,1\n")
    results.write_digests(tmp_path, listed(tmp_path), tmp_path / results.DIGESTS)
    return tmp_path


def listed(folder):
    return [Path(name) for name in results.contents(folder)]


def test_every_changed_missing_or_further_file_is_found(campaign):
    digests = results.read_digests(campaign)
    assert len(digests) == 5
    assert results.wrong_files(campaign, digests) == {}
    changed = campaign / "results/cells/loss/cell/1/tcp.csv"
    changed.write_text(changed.read_text().replace("1", "2"))
    (campaign / "results/claims.csv").unlink()
    (campaign / "results/.more").write_text("more")
    (campaign / "results/more").symlink_to("/etc")
    os.mkfifo(campaign / "results/fifo")  # which no one waits for
    assert results.wrong_files(campaign, digests) == {
        "results/.more": "not listed",
        "results/cells/loss/cell/1/tcp.csv": "another file",
        "results/claims.csv": "missing",
        "results/fifo": "not a regular file",
        "results/more": "not a regular file",
    }


def test_what_setting_up_leaves_is_not_looked_at_and_nothing_else(campaign):
    digests = results.read_digests(campaign)
    for name in (".venv/bin", "src/losslab.egg-info", "src/losslab/__pycache__"):
        (campaign / name).mkdir(parents=True)
        (campaign / name / "file").write_text("made here")
    assert results.wrong_files(campaign, digests) == {}
    for name in ("results/.venv", "src/other.egg-info"):
        (campaign / name).mkdir(parents=True)
        (campaign / name / "file").write_text("added")
    found = results.wrong_files(campaign, digests)
    assert set(found) == {"results/.venv/file", "src/other.egg-info/file"}


def test_a_list_that_is_none_is_refused(campaign):
    (campaign / results.DIGESTS).unlink()
    with pytest.raises(LosslabError, match=r"must list the artifact's files"):
        results.read_digests(campaign)
    (campaign / results.DIGESTS).write_text("name\nx\ty\n")
    with pytest.raises(LosslabError, match=r"must list the artifact's files"):
        results.read_digests(campaign)


@pytest.mark.parametrize(
    "names", [["../x"], ["/etc/passwd"], ["a/../b"], ["a//b"], ["./a"], ["a", "a"], ["."]]
)
def test_a_list_of_files_elsewhere_or_twice_is_refused(tmp_path, names):
    rows = "".join(f"0\t1\t{name}\n" for name in names)
    (tmp_path / results.DIGESTS).write_text(f"{results.HEAD}\n{rows}")
    with pytest.raises(LosslabError, match="must list each file once"):
        results.read_digests(tmp_path)


def test_the_sample_is_the_days_and_the_results(tmp_path):
    paths = [f"cell/{number}" for number in range(100)]
    digests = tmp_path / "digests.tsv"
    digests.write_text("a")
    first = sampling.sample(paths, 20, "2026-01-31", digests)
    assert first == sampling.sample(paths[::-1], 20, "2026-01-31", digests)
    assert len(set(first)) == 20
    assert first != sampling.sample(paths, 20, "2026-02-01", digests)
    digests.write_text("b")
    assert first != sampling.sample(paths, 20, "2026-01-31", digests)
    assert sampling.sample(paths[:3], 20, "2026-01-31", digests) == paths[:3]
    assert sampling.sample(paths, None, "2026-01-31", digests) == sorted(paths)


@pytest.mark.parametrize("day", ["xx/../..", "2026-1-31", "20260131", "2026-02-30", ""])
def test_a_day_is_nothing_else(capsys, day):
    with pytest.raises(SystemExit) as ended:
        cli.main(["artifact", "verify", f"--day={day}"])
    assert ended.value.code == 2
    assert f"found {day!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        *(f"--sample={count}" for count in ("-3", "0", "1.5", "some", "\u0661", "")),
        "--processors=0",
    ],
)
def test_a_number_is_nothing_else(capsys, option):
    assert cli.main(["artifact", "verify", option]) == 2
    assert option.strip("-").partition("=")[0] in capsys.readouterr().err


def test_results_that_are_none_are_a_usage_error(tmp_path, capsys):
    assert cli.main(["verify", str(tmp_path / "none")]) == 2
    assert "must be a folder" in capsys.readouterr().err
    assert cli.main(["verify", str(tmp_path)]) == 2
    assert "--campaign" in capsys.readouterr().err


def test_a_tree_has_the_name_that_git_gives_it(tmp_path):
    def git(*words):
        command = ["git", "-C", tmp_path, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    for name in ("a", "a.b", "a-b/c", "a/d", "a0/e f", "b/\u00e9"):
        path = tmp_path / "x" / name if name == "a" else tmp_path / "y" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "y/a.b").chmod(0o755)
    (tmp_path / "y/link").symlink_to("a.b")
    git("init", "--quiet")
    git("add", "--all")
    git("-c", "user.name=a", "-c", "user.email=a", "commit", "--quiet", "--message", "\u00e9")
    names = git("-c", "core.quotePath=false", "ls-files").splitlines()
    name, text = git("rev-parse", "HEAD"), git("cat-file", "commit", "HEAD") + "\n"
    assert commits.tree_of(tmp_path, map(Path, names), 40) == git("rev-parse", "HEAD^{tree}")
    assert commits.commit_problem(name, text.encode(), tmp_path, map(Path, names)) == ""
    fewer = commits.commit_problem(name, text.encode(), tmp_path, map(Path, names[1:]))
    assert "other files" in fewer
    assert "another commit" in commits.commit_problem("0" * 40, text.encode(), tmp_path, [])
    assert "hexadecimal" in commits.commit_problem("HEAD", text.encode(), tmp_path, [])


@pytest.mark.parametrize(("population", "wrong", "count"), [(6, 2, 3), (5, 1, 4), (4, 0, 2)])
def test_the_probability_is_that_of_counting_all_samples(population, wrong, count):
    samples = list(combinations(range(population), count))
    missed = sum(all(each >= wrong for each in drawn) for drawn in samples)
    assert math.isclose(sampling.unnoticed(population, wrong, count), missed / len(samples))


def verdict(**more):
    every = [audit.Replicate(f"cell/{n}", False, True) for n in range(100)]
    found = verification.Verification(audit.Audit(replicates=every, metrics={"goodput_mbit"}))
    drawn = [f"cell/{n}" for n in range(20)]
    facts = {"results": found, "drawn": drawn, "same": drawn, "files": 400} | more
    return verify.Verdict("2026-01-31", **facts)


def test_the_statement_says_what_it_is_worth():
    text = statement.statement(verdict())
    assert "20 of 20 replicates, drawn on 2026-01-31 from 100" in text
    assert "10 % made up (10): probability 0.0951" in text
    assert "bytes of the 80 of 100 replicates not run again" in text
    assert "nothing proves that" in text
    assert text.endswith("\nVERIFIED")


def test_where_all_are_run_again_nothing_goes_unnoticed():
    every = [f"cell/{n}" for n in range(100)]
    words = statement.statement(verdict(drawn=every, same=every))
    assert "1 % made up (1): probability 0\n" in words
    assert "20 % made up (20): probability 0\n" in words


def test_a_finding_is_no_verification():
    found = verdict(findings=[audit.Finding("files", "a", "missing")])
    assert not found.good
    assert statement.statement(found).endswith("\nNOT VERIFIED")
    assert "probability" not in statement.statement(found)
    assert json.loads(json.dumps(statement.facts(found), default=sorted))["findings"] == [
        {"stage": "files", "path": "a", "what": "missing"}
    ]


def test_nothing_run_is_no_verification():
    assert not verdict(same=[], cannot={"cell/1": "no kernel"}).good


def test_strangers_programs_run_only_where_they_are_trusted(tmp_path):
    programs = {"app": "command", "sender_command": "./a", "receiver_command": "./b"}
    condition = CONDITION.to_json() | programs
    manifest = {"cell": condition, "instrument": {}, "backend": "virtual", "seed": 1}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(sampling.CannotRunError, match="--trust"):
        sampling.run_again(tmp_path, trust=False)


def test_the_appendix_is_made_of_the_data(campaign):
    text = appendix.text(campaign, listed(campaign), RUNS, "config/quick.yaml", "all")
    assert "3 valid replicates of 1 cells" in text
    assert "measured on A box" in text
    assert "2 claims: 1 reproduced, 1 not measured" in text
    row = next(line for line in text.splitlines() if "loss/one" in line)
    assert row == (
        "| loss/one: CUBIC loses \\| much. | 70 | 76.15 [74.2, 77.9] % | 10 | reproduced | "
        "`losslab claims loss` |"
    )


def issues(folder, monkeypatch):
    """Validate; the JSON-LD context is the package's own instead of the network's."""
    import rocrate
    from rocrate_validator import models, services
    from rocrate_validator.utils import http

    class Context:
        status_code, headers = 200, {"Content-Type": "application/ld+json"}
        text = (Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_text()
        content, ok, url = text.encode(), True, "https://w3id.org/ro/crate/1.3/context"

        def json(self):
            return json.loads(self.text)

    monkeypatch.setattr(http.HttpRequester, "get", lambda *_, **__: Context(), raising=False)
    settings = services.ValidationSettings(
        rocrate_uri=str(folder),
        profile_identifier="ro-crate-1.3",
        requirement_severity=models.Severity.REQUIRED,
    )
    return [issue.message for issue in services.validate(settings).get_issues()]


def test_the_crate_is_valid(campaign, root, monkeypatch):
    # `make test` installs it.
    pytest.importorskip("rocrate_validator", reason="scripts/group.sh artifact")
    (campaign / "Snakefile").write_text((root / "Snakefile").read_text())
    crate.describe(campaign, "config/quick.yaml", RUNS, "2026-01-31")
    assert issues(campaign, monkeypatch) == []
    described = campaign / "ro-crate-metadata.json"
    named = {each["@id"] for each in json.loads(described.read_text())["@graph"]}
    assert {"Snakefile", "results/claims.csv", "results/cells/", "#kernel-0123"} <= named
    # The validator sees what is missing.
    described.write_text(described.read_text().replace('"https://www.kernel.org"', '""'))
    (campaign / "results/claims.csv").unlink()
    assert issues(campaign, monkeypatch) != []


def test_a_campaign_is_a_file_of_the_repository(tmp_path, root):
    assert pack.campaign_file(root / "config/quick.yaml") == Path("config/quick.yaml")
    for path in (tmp_path / "none.yaml", root / "pyproject.toml"):
        with pytest.raises(LosslabError, match="must be a configuration file"):
            pack.campaign_file(path)


def test_nothing_measured_is_nothing_to_pack(tmp_path):
    with pytest.raises(LosslabError, match="must say which campaign"):
        pack.pack(tmp_path, Path("config/quick.yaml"), tmp_path / "a.tar.gz", 1, False)
