"""Acceptance suite: commands of the pages, phases of a set-up, and its page."""

import os
from pathlib import Path

import pytest

from losslab.errors import LosslabError
from tests import pages
from tests.acceptance import __main__ as main
from tests.acceptance import container, folder, network, outcome, steps

SAID = """\
0.4 losslab: installing gcc make
40.2 losslab: making .venv
70.0 losslab: fetching kernel and image, where the cache does not have them
72.5 .venv/bin/snakemake --cores all --configfile config/quick.yaml
80.0 anything else"""


def ran(text=SAID, status=0, wall_s=100.0):
    lines = [line.split(" ", 1) for line in text.splitlines()]
    return folder.Ran(status, wall_s, 1.0, tuple((float(at), words) for at, words in lines))


@pytest.fixture
def readme(root):
    return (root / "README.md").read_text()


def test_every_command_of_the_readme_has_its_step(readme):
    shown = [step.shown for step in steps.steps(readme, full=False)]
    assert len(shown) == len(pages.lines(readme))
    assert shown[0] == steps.REPORT
    # Every substitute replaces a command of the README.
    assert set(steps.SMALLER) | set(steps.ALWAYS) <= set(shown)


def test_commands_of_pages_run_unchanged_except_long_ones(readme):
    full = {step.shown: step.run for step in steps.steps(readme, full=True)}
    assert {shown for shown, run in full.items() if run != shown} == set(steps.ALWAYS)
    small = {step.shown: step for step in steps.steps(readme, full=False)}
    assert small[steps.REPORT].run == f"make report CONFIG={steps.CAMPAIGN}"
    assert all(step.why for step in small.values() if step.run != step.shown)


def test_verification_ends_with_make(root):
    line = steps.verifying((root / "docs/how-to/artifact.md").read_text())
    assert line.split(" && ")[0].startswith("tar ")
    assert line.endswith(" && make verify-artifact")


def test_set_up_is_split_into_phases():
    assert steps.parts(ran()) == {
        "Debian packages": 40.2, "Python packages": 29.8, "kernel and image, fetched": 2.5,
        "kernel, image, measuring, report": 27.5,
    }  # fmt: skip
    assert steps.parts(ran("1.0 nothing that is known")) == {"all": 100.0}


def test_phases_match_the_scripts_output(root):
    text = "".join((root / f"scripts/{name}.sh").read_text() for name in ("setup", "packages"))
    printed = [words for words in steps.BEGINS if f'echo "{words.strip()}' in text]
    assert len(printed) == 3
    assert "\t.venv/bin/snakemake" in (root / "Makefile").read_text()


def test_roots_commands_are_taken_from_the_message():
    words = "losslab: error: Debian packages are missing\n  -> run as root:  apt-get update && b c"
    text = "\n".join(f"0.1 {line}" for line in words.splitlines())
    assert steps.for_root(ran(text, status=2)) == "apt-get update && b c"
    assert steps.for_root(ran()) == ""


def test_apt_sources_are_the_releases_of_the_archives(monkeypatch):
    known = ["http://one/debian/", "http://one/debian-security/"]
    monkeypatch.setattr(folder, "debian_archives", lambda: known)
    assert folder.sources("trixie") == [
        "deb http://one/debian/ trixie main",
        "deb http://one/debian/ trixie-updates main",
        "deb http://one/debian-security/ trixie-security main",
    ]


def test_only_network_variables_are_passed_on(monkeypatch, tmp_path):
    certificates = tmp_path / "own.crt"
    certificates.write_text("certificates")
    monkeypatch.setattr(os, "environ", {
        "HOME": "/home/me", "https_proxy": "http://proxy:1", "PIP_INDEX_URL": "https://index",
        "PIP_FIND_LINKS": "/opt", "LOSSLAB_CACHE": "/cache", "PIP_CERT": str(certificates),
    })  # fmt: skip
    found = network.variables()
    assert {name for name in found if name not in network.CERTIFICATES} == {
        "https_proxy", "PIP_INDEX_URL",
    }  # fmt: skip
    assert found["SSL_CERT_FILE"] == str(network.BUNDLE)
    network_files = tmp_path / "root"
    (network_files / "etc").mkdir(parents=True)
    network.prepare(network_files)
    assert (network_files / network.BUNDLE.relative_to("/")).read_text() == "certificates"


def test_apt_gets_the_network_settings_alone(monkeypatch):
    said = (
        'Acquire::http::Proxy "http://proxy:1";\nAPT::Architecture "amd64";\n'
        'Acquire::https::CaInfo "/own.crt";\nDPkg::Post-Invoke:: "rm -f x";\n'
    )
    monkeypatch.setattr(network.processes, "run", lambda words: said)
    assert network.apt_options() == [
        'Acquire::http::Proxy "http://proxy:1";', 'Acquire::https::CaInfo "/own.crt";',
    ]  # fmt: skip


def test_root_folders_need_root(monkeypatch, tmp_path):
    monkeypatch.setattr(folder.os, "geteuid", lambda: 1000)
    with (
        pytest.raises(LosslabError, match="must be done by root"),
        folder.bare("trixie", "root", tmp_path),
    ):
        pass


def test_folder_with_a_mount_is_refused():
    with pytest.raises(
        LosslabError, match=r"nothing must be mounted in /nowhere, found /nowhere/sys"
    ):
        folder.refuse_mounts(Path("/nowhere"), "1 2 0:3 / /nowhere/sys rw - proc proc rw\n")
    folder.refuse_mounts(Path("/nowhere"), "1 2 0:3 / /sys rw - proc proc rw\n")


def test_every_case_is_listed_with_its_requirements(capsys):
    assert main.main(["--list"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name:16} {case.does}" in text for name, case in main.CASES.items())
    assert "needs root, slurm-wlm, munge" in text


def test_impossible_case_is_skipped_with_its_reason(capsys, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert main.main(["all"]) == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["artifact"] == "skipped: needs --artifact"
    assert lines["debian-12"] == lines["slurm"] == lines["netem"] == "skipped: needs root"


def test_failing_case_is_reported_and_others_run(capsys, monkeypatch):
    def fail(_):
        raise LosslabError("x must be y")

    def case(run):
        return main.Case("", "", lambda _: "", run)

    monkeypatch.setattr(main, "CASES", {"bad": case(fail), "good": case(lambda _: None)})
    assert main.main(["bad", "good"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "bad: failed: x must be y",
        "good: as expected, in 0 s",
    ]


CASE = outcome.Case("trixie", "user", "fetched")
ROWS = [
    outcome.Row("make report", 61.4, 40.2, None, "as `make report CONFIG=x`: two cells"),
    outcome.Row("– `.venv`", size_mb=300),
]


def test_recorded_case_replaces_its_last_record(monkeypatch, tmp_path):
    monkeypatch.setattr(outcome, "FILE", tmp_path / "measured.tsv")
    monkeypatch.setattr(outcome, "PAGE", tmp_path / "acceptance.md")
    here = {"processors": 2, "busy_with_others": 0.251}
    outcome.write(CASE, here, [outcome.Row("make before", 1.0)])
    outcome.write(outcome.Case("bookworm", "root", "built"), here, ROWS[:1])
    outcome.write(CASE, here, ROWS)
    text = (tmp_path / "acceptance.md").read_text()
    assert text == outcome.page(outcome.read())
    assert "make before" not in text
    assert text.index("## Debian 12, as root, kernel and image built") < text.index("### Debian 13")
    assert "| `make report` | 61 | 40 |  | as `make report CONFIG=x`: two cells |" in text
    assert "| – `.venv` |  |  | 300 |  |" in text
    assert "2 CPUs, 25 % used by other programs" in text


def test_acceptance_page_equals_its_record():
    recorded = outcome.read()
    written = outcome.PAGE.read_text() if outcome.PAGE.is_file() else None
    assert written == (outcome.page(recorded) if recorded else None)


def test_unexpected_outcome_is_counted(capsys):
    trials = [
        container.Trial("", "doctor", False, "personality"),
        container.Trial("--more", "measure", True),
    ]
    good = "no personality\n\nended 0 1\n{}\n\nended 1 0\n"
    assert container.judged(trials, good) == 0
    assert container.judged(trials, good.replace("personality", "reason")) == 1
    assert container.judged(trials, good.replace("ended 1 0", "ended 1 125")) == 1
    assert container.judged(trials, "") == 2
    assert "NOT as expected" in capsys.readouterr().out
