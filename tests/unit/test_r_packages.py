"""The R packages that the sources use are those that are installed and looked for, no others."""

import re

import yaml

from losslab import doctor

BASE = {"stats", "utils", "grDevices", "grid", "methods", "tools"}
TIDYVERSE = {"ggplot2", "dplyr", "tidyr", "readr", "tibble", "scales", "tidyselect", "forcats"}
# What the linters' test calls.
LINTERS = {"lintr"}


def used(paths):
    """The packages that R code attaches or names, tidyverse's as one."""
    text = "\n".join(path.read_text() for path in paths)
    names = set(re.findall(r"\blibrary\((\w+)", text)) | set(re.findall(r"\b([\w.]+)::(?!:)", text))
    tidy = {"tidyverse"} if names & TIDYVERSE else set()
    return (names - BASE - TIDYVERSE) | tidy


def needed(root):
    """What the workflow needs, and what the tests need besides."""
    everything = set((root / "analysis").rglob("*.R"))
    tests = {path for path in everything if "tests" in path.parts[len(root.parts) :]}
    work = used([*(everything - tests), *(root / "report").rglob("*.[Rq]*")])
    return work, used([*tests, *(root / "tests").glob("*.R")]) | LINTERS


def conda(path):
    """The R packages of a conda environment, without R itself."""
    names = [name for name in yaml.safe_load(path.read_text())["dependencies"] if name is not None]
    found = {re.split("[<>=]", name)[0] for name in names if isinstance(name, str)}
    return {name.removeprefix("r-") for name in found if name.startswith("r-")} - {"base"}


def test_debian(root):
    work, tests = needed(root)
    assert set(doctor.r_packages("analysis")) == work
    assert set(doctor.r_packages("tests")) == tests - work


def test_conda(root):
    work, tests = needed(root)
    # Quarto knits with rmarkdown; the sources do not name it. ggplot2 is named beside tidyverse.
    assert conda(root / "environment.yml") == work | tests | {"rmarkdown", "ggplot2"}
    assert conda(root / "workflow/envs/tools.yaml") == work
