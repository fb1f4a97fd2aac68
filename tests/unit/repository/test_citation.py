"""Metadata for citations and archives agree with the package."""

import json
import tomllib

from losslab import __version__
from losslab.reading import read_yaml
from losslab.repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = read_yaml(ROOT / "CITATION.cff")
CODEMETA = json.loads((ROOT / "codemeta.json").read_text())


def test_versions_and_names_agree():
    # pyproject.toml reads the version of losslab.__version__.
    assert PROJECT["dynamic"] == ["version"]
    assert {CITATION["version"], CODEMETA["version"]} == {__version__}
    assert {CITATION["title"], CODEMETA["name"]} == {PROJECT["name"]}
    # Keys that version 1.2.0 of the format requires.
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)


def test_abstract_authors_and_keywords_agree():
    assert " ".join(CITATION["abstract"].split()) == CODEMETA["description"]
    assert [author["name"] for author in CODEMETA["author"]] == [
        author["name"] for author in CITATION["authors"]
    ]
    assert CODEMETA["keywords"] == CITATION["keywords"]


def test_licences_and_requirements_are_those_of_the_package():
    licences = {address.rpartition("/")[2] for address in CODEMETA["license"]}
    assert licences == set(PROJECT["license"]["text"].split(" AND "))
    assert CITATION["license"] in licences
    required = CODEMETA["softwareRequirements"]
    assert f"Python {PROJECT['requires-python']}" in required
    (snakemake,) = (
        each for each in PROJECT["optional-dependencies"]["campaign"] if each.startswith("snake")
    )
    assert snakemake.replace("snakemake", "Snakemake ") in required
