"""Locks of Python packages: one environment has them all."""

import itertools
import re
import tomllib
from collections import defaultdict
from importlib import metadata

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from losslab.repository import ROOT

# Versions may depend on Python's, so a lock may have several of a package.
ROW = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def test_locks_agree_on_the_versions_of_shared_packages():
    locks = {}
    for path in (ROOT / "requirements.lock", *(ROOT / "requirements").glob("*.lock")):
        locks[path.name] = defaultdict(set)
        for name, version in ROW.findall(path.read_text()):
            locks[path.name][name].add(version)
    first = locks.pop("requirements.lock")
    assert len(first) > 50
    different = {
        f"{name} of {lock}": (versions, first[name])
        for lock, rows in locks.items()
        for name, versions in rows.items()
        if name in first and versions != first[name]
    }
    assert different == {}


def locked(path):
    """Return a lock's packages."""
    lines = path.read_text().replace("\\\n", " ").splitlines()
    return [Requirement(line.split(" --hash=")[0].strip()) for line in lines if ROW.match(line)]


def canonical(requirements):
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def test_python_lock_satisfies_the_projects_requirements(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())
    wanted = canonical(
        Requirement(words)
        for words in (
            *project["project"]["dependencies"],
            *itertools.chain(*project["project"]["optional-dependencies"].values()),
        )
    )
    build = canonical(locked(ROOT / "requirements-build.lock"))
    everything = canonical(locked(ROOT / "requirements.lock"))
    wanted_to_build = canonical(map(Requirement, project["build-system"]["requires"]))
    for asked, has in ((wanted, everything), (wanted_to_build, build)):
        for name, requirement in asked.items():
            (version,) = (each.version for each in has[name].specifier)
            assert requirement.specifier.contains(version), name


def test_python_lock_is_complete_for_this_version():
    packages = canonical(
        r for r in locked(ROOT / "requirements.lock") if r.marker is None or r.marker.evaluate()
    )
    for name in packages:
        for words in metadata.requires(name) or ():
            needed = Requirement(words)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in packages, f"{name} needs {needed.name}"


def test_conda_environment_has_the_locked_python_versions(root):
    environment = yaml.safe_load((root / "environment.yml").read_text())
    named = [words for words in environment["dependencies"] if isinstance(words, str)]
    packages = canonical(locked(ROOT / "requirements.lock"))
    conda = {"snakemake": "snakemake-minimal"}
    for name in ("snakemake", "pandas", "jsonschema", "pyyaml", "scipy", "urllib3"):
        (version,) = (each.version for each in packages[name].specifier)
        assert f"{conda.get(name, name)}={version}" in named
