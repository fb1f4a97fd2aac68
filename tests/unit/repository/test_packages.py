"""Debian and R packages of scripts/packages.txt agree with installers, doctor, conda and images."""

import re
import shutil
import subprocess

import pytest
import yaml

from losslab import analysis, doctor
from losslab.repository import ROOT
from tests.sources import tracked

PROGRAMS = ("src", "bench", "scripts")
# Programs that packages.sh calls.
OF_SHELL = ("sh", "dirname", "sed", "awk", "grep")
INSTALL = re.compile(r"apt-get install (?!-)([a-z0-9.+ -]+)")
BASE = {"stats", "utils", "grDevices", "grid", "methods", "tools", "compiler"}
TIDYVERSE = {
    "ggplot2",
    "dplyr",
    "tidyr",
    "readr",
    "rlang",
    "tibble",
    "scales",
    "tidyselect",
    "forcats",
}


def listed(root):
    """Return the packages of each part."""
    text = (root / "scripts/packages.txt").read_text()
    parts = {line.split()[0] for line in text.splitlines() if not line.startswith("#")}
    return {part: doctor.debian_packages(part) for part in parts}


def packages_sh(root, folder, parts, installed=(), programs=(), user=0):
    """Run packages.sh on a made-up machine; return its status and apt-get's arguments."""
    for name in OF_SHELL:
        (folder / name).symlink_to(shutil.which(name))
    says = f"case ' {' '.join(installed)} ' in *\" $4 \"*) echo 'install ok installed';; esac"
    stubs = {
        "dpkg-query": says, "apt-get": f'echo "$@" >>{folder}/calls', "id": f"echo {user}",
        **dict.fromkeys(programs, ":"),
    }  # fmt: skip
    for name, script in stubs.items():
        (folder / name).write_text(f"#!{folder}/sh\n{script}\n")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        [root / "scripts/packages.sh", *parts], env={"PATH": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    calls = folder / "calls"
    return done, calls.read_text().splitlines() if calls.exists() else []


def test_only_missing_packages_are_installed(root, tmp_path):
    installed = ("gcc", "libc6-dev", "docker.io")
    done, calls = packages_sh(root, tmp_path, ["build", "engine"], installed, ("flex", "xz"))
    assert done.returncode == 0, done.stderr
    assert calls[0] == "update -qq"
    names = calls[1].removeprefix("install -y --no-install-recommends ").split()
    there = {"gcc", "libc6-dev", "flex", "xz-utils"}
    assert names == [name for name in listed(root)["build"] if name not in there]


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_ordinary_user_gets_the_command_for_root(root, tmp_path, check):
    done, calls = packages_sh(root, tmp_path, [*check, "browser", "engine"], user=1000)
    assert (done.returncode, calls) == (1, [])
    assert "chromium docker.io" in done.stderr


def test_hints_and_scripts_name_listed_packages_and_parts(root):
    files = tracked(*(f"{folder}/*.[ps]*" for folder in PROGRAMS), "README.md", "CONTRIBUTING.md")
    found = {
        name for p in files for words in INSTALL.findall(p.read_text()) for name in words.split()
    }
    assert found >= {"docker.io", "python3-venv"}
    assert found <= {name for names in listed(root).values() for name in names}
    scripts = "".join((root / f"scripts/{n}.sh").read_text() for n in ("setup", "containernet",
                                                                       "test"))  # fmt: skip
    calls = re.findall(r"^[^#\n]*scripts/packages\.sh ([^&|\n]*)", scripts, re.MULTILINE)
    assert {part for call in calls for part in call.split()} - {"--check"} == set(listed(root))


def used(paths):
    """Return the packages that R code attaches or names; those of tidyverse count as one."""
    text = "\n".join(path.read_text() for path in paths)
    names = set(re.findall(r"\blibrary\((\w+)", text)) | set(re.findall(r"\b([\w.]+)::(?!:)", text))
    return (names - BASE - TIDYVERSE) | ({"tidyverse"} if names & TIDYVERSE else set())


def test_r_packages_of_the_sources_are_those_of_debian_and_conda(root):
    everything = {*tracked("analysis/*.R", "studies/*.R")}
    tests = {*tracked("analysis/tests/*.R")}
    # Quarto knits with rmarkdown, and the linters' test calls lintr.
    chapters = tracked("report/*.[Rq]*", "studies/*.qmd")
    work = used([*(everything - tests), *chapters]) | {"rmarkdown"}
    more = used([*tests, *tracked("tests/*.R")]) | {"lintr"}
    assert set(analysis.r_packages("analysis")) == work
    assert set(analysis.r_packages("tests")) == more - work
    for file in ("environment.yml", "workflow/envs/tools.yaml"):
        names = yaml.safe_load((root / file).read_text())["dependencies"]
        conda = {re.split("[<>=]", name)[0] for name in names if isinstance(name, str)}
        assert {n.removeprefix("r-") for n in conda if n.startswith("r-")} == work | {"base"}, file


def test_setup_keeps_an_environment_that_it_did_not_make(tmp_path):
    """D: setup.sh removed any .venv."""
    for name in ("scripts", ".venv"):
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / "scripts")
    (tmp_path / ".venv" / "mine").touch()
    command = ["sh", str(tmp_path / "scripts" / "setup.sh"), "tools"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "found another" in done.stderr
    assert (tmp_path / ".venv" / "mine").is_file()
