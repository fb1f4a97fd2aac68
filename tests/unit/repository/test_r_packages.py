"""R packages of the sources equal those that are installed and checked."""

import re

import yaml

from losslab.instrument import analysis

BASE = {"stats", "utils", "grDevices", "grid", "methods", "tools", "compiler"}
TIDYVERSE = {"ggplot2", "dplyr", "tidyr", "readr", "tibble", "scales", "tidyselect", "forcats"}
# Packages that the linters' test calls.
LINTERS = {"lintr"}
# Packages that the sources do not name: Quarto knits with rmarkdown.
RENDERER = {"rmarkdown"}


def used(paths):
    """Return the packages that R code attaches or names; those of tidyverse count as one."""
    text = "\n".join(path.read_text() for path in paths)
    names = set(re.findall(r"\blibrary\((\w+)", text)) | set(re.findall(r"\b([\w.]+)::(?!:)", text))
    tidy = {"tidyverse"} if names & TIDYVERSE else set()
    return (names - BASE - TIDYVERSE) | tidy


def needed(root):
    """Return R packages of the workflow, and further ones of the tests."""
    everything = set((root / "analysis").rglob("*.R"))
    tests = {path for path in everything if "tests" in path.parts[len(root.parts) :]}
    work = used([*(everything - tests), *(root / "report").rglob("*.[Rq]*")])
    return work | RENDERER, used([*tests, *(root / "tests").glob("*.R")]) | LINTERS


def conda(path):
    """Return the R packages of a conda environment, without R itself."""
    names = [name for name in yaml.safe_load(path.read_text())["dependencies"] if name is not None]
    found = {re.split("[<>=]", name)[0] for name in names if isinstance(name, str)}
    return {name.removeprefix("r-") for name in found if name.startswith("r-")} - {"base"}


def test_debian_packages_have_every_r_package(root):
    work, tests = needed(root)
    assert set(analysis.r_packages("analysis")) == work
    assert set(analysis.r_packages("tests")) == tests - work


def test_conda_environment_has_every_r_package(root):
    work, _ = needed(root)
    for file in ("environment.yml", "workflow/envs/tools.yaml"):
        assert conda(root / file) == work, file
