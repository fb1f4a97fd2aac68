"""Locks of Python packages, and the metadata of the project, agree with each other."""

import itertools
import json
import re
import tomllib
from collections import defaultdict
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from losslab.reading import read_yaml
from losslab.repository import ROOT, __version__
from tests.sources import tracked

# Versions may depend on Python's, so a lock may have several of a package.
ROW = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(path):
    """Return a lock's packages."""
    lines = path.read_text().replace("\\\n", " ").splitlines()
    return [Requirement(line.split(" --hash=")[0].strip()) for line in lines if ROW.match(line)]


def canonical(requirements):
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def version_of(requirement):
    (version,) = (each.version for each in requirement.specifier)
    return version


def test_locks_agree_on_the_versions_of_shared_packages():
    versions = defaultdict(lambda: defaultdict(set))
    for path in tracked("requirements.lock", "requirements/*.lock"):
        for name, version in ROW.findall(path.read_text()):
            versions[name][path.name].add(version)
    assert len(versions) > 50
    differ = {
        name: dict(locks) for name, locks in versions.items()
        if "requirements.lock" in locks and any(v != locks["requirements.lock"]
                                                for v in locks.values())
    }  # fmt: skip
    assert differ == {}


def test_locks_satisfy_the_projects_requirements_and_conda_has_their_versions():
    extras = {**PROJECT["project"]["optional-dependencies"]}
    served = extras.pop("mcp")  # its lock is a group's
    wanted = [*PROJECT["project"]["dependencies"], *itertools.chain(*extras.values())]
    packages = canonical(locked(ROOT / "requirements.lock"))
    build = canonical(locked(ROOT / "requirements-build.lock"))
    mcp = canonical(locked(ROOT / "requirements/mcp.lock"))
    for asked, has in (
        (wanted, packages), (PROJECT["build-system"]["requires"], build), (served, mcp),
    ):  # fmt: skip
        for name, requirement in canonical(map(Requirement, asked)).items():
            assert requirement.specifier.contains(version_of(has[name])), name
    named = read_yaml(ROOT / "environment.yml")["dependencies"]
    conda = {"snakemake": "snakemake-minimal"}
    for name in ("snakemake", "pandas", "jsonschema", "pyyaml", "scipy", "urllib3"):
        assert f"{conda.get(name, name)}={version_of(packages[name])}" in named


def test_python_lock_is_complete_for_this_version():
    packages = canonical(
        r for r in locked(ROOT / "requirements.lock") if r.marker is None or r.marker.evaluate()
    )
    for name in packages:
        for words in metadata.requires(name) or ():
            needed = Requirement(words)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in packages, f"{name} needs {needed.name}"


def test_metadata_for_citations_and_archives_are_those_of_the_package():
    citation = read_yaml(ROOT / "CITATION.cff")
    codemeta = json.loads((ROOT / "codemeta.json").read_text())
    assert {citation["version"], codemeta["version"]} == {__version__}
    assert {citation["title"], codemeta["name"]} == {PROJECT["project"]["name"]}
    assert " ".join(citation["abstract"].split()) == codemeta["description"]
    assert [each["name"] for each in codemeta["author"]] == [
        each["name"] for each in citation["authors"]
    ]
    licences = {address.rpartition("/")[2] for address in codemeta["license"]}
    assert licences == set(PROJECT["project"]["license"]["text"].split(" AND "))
    assert citation["license"] in licences
    assert f"Python {PROJECT['project']['requires-python']}" in codemeta["softwareRequirements"]
