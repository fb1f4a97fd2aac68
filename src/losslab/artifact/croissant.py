"""Croissant description of an artifact's tables (https://docs.mlcommons.org/croissant)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from losslab import __version__
from losslab.artifact.datapackage import header, identifier, tables
from losslab.campaign.folder import write_json
from losslab.instrument.archive import digest
from losslab.reading import read_yaml
from losslab.repository import ROOT
from losslab.study import dictionary

FILE = "croissant.json"
CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
LICENSE = "https://spdx.org/licenses/MIT"
# Types of Table Schema; Croissant has no type for any other.
TYPES = {"integer": "sc:Integer", "number": "sc:Float", "boolean": "sc:Boolean"}
# Readers warn of a context without all terms of the standard.
TERMS = (
    "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty",
    "fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField",
    "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator",
    "source", "subField", "transform",
)  # fmt: skip
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{term: f"cr:{term}" for term in TERMS},
}


def describe(folder: Path, campaign: str, files: Sequence[Path], day: str) -> None:
    """Write `croissant.json` of an artifact's folder; `files` are paths in it.

    It describes the tables of the campaign, but not those of the single replicates, of which there
    are thousands.
    """
    citation = read_yaml(ROOT / "CITATION.cff")
    own = tables(files)
    write_json(
        {
            "@context": CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": CONFORMS_TO,
            "name": "losslab-results",
            "description": f"Results of losslab {__version__}, campaign {campaign}. "
            + " ".join(citation["abstract"].split()),
            "license": LICENSE,
            "version": __version__,
            "datePublished": day,
            "citeAs": f"{citation['title']} {citation['version']}",
            "creator": [
                {"@type": "sc:Organization", "name": each["name"]} for each in citation["authors"]
            ],
            "distribution": [_file(folder, path) for path in own],
            "recordSet": [_records(folder, path) for path in own],
        },
        folder / FILE,
    )


def _file(folder: Path, path: Path) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path.as_posix(),
        "name": path.name,
        "contentUrl": path.as_posix(),
        "contentSize": f"{(folder / path).stat().st_size} B",
        "encodingFormat": "text/csv",
        "sha256": digest(folder / path),
    }


def _records(folder: Path, path: Path) -> dict[str, Any]:
    """Return the columns of a table, as the data dictionary explains them."""
    name = identifier(path)
    fields = dictionary.describe(str(path), header(folder / path))
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column.name}",
                "name": column.name,
                "description": f"{column.description} Unit: {column.unit}."
                if column.unit
                else column.description,
                "dataType": TYPES.get(column.type, "sc:Text"),
                "source": {
                    "fileObject": {"@id": path.as_posix()},
                    "extract": {"column": column.name},
                },
            }
            for column in fields
        ],
    }
