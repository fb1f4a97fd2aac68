"""Fuzzed readers, each with valid inputs and the property of accepted ones."""

from __future__ import annotations

import functools
import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.fuzz.checks import (
    check_changes,
    check_condition,
    check_flows,
    check_limits,
    check_number,
    check_published,
    check_scheme,
    check_studies,
    check_sweep,
    check_trace,
    nothing,
)
from bench.fuzz.judging import Reader, require_finite
from losslab import cellspec, reading, sweeps, whatif
from losslab.campaign import documents, integrity, scorecard, verdicts
from losslab.campaign.folder import HOST_FILE, MANIFEST_FILE, write_json
from losslab.emulation.link import traces
from losslab.instrument import image, kernels
from losslab.study import claims, design, suite
from losslab.study import names as study_names
from losslab.study.condition import AXES
from losslab.ui import plot, series

ROOT = Path(__file__).resolve().parents[2]
CELLS = ROOT / "tests" / "golden" / "cells"
RUN = {"replicates": 2, "duration_s": 10, "warmup_s": 1}
PATH = {"algorithm": "cubic", "rtt_ms": 20.0, "rate_mbit": 20.0}
Read = Callable[[bytes], Any]


@functools.cache
def folder() -> Path:
    """Return this process's folder with the repository's configuration and files to fuzz."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="losslab-fuzz-", dir=memory))
    for name in ("config", "report/claims"):
        shutil.copytree(ROOT / name, made / name)
    (made / "containers").symlink_to(ROOT / "containers")
    return made


def clear() -> None:
    """Remove this process's folder."""
    shutil.rmtree(folder())
    folder.cache_clear()


@functools.cache
def names() -> Any:
    """Return the names that conditions may use."""
    return design.load_names(ROOT)


@functools.cache
def parameter_grid(study: str) -> list[dict[str, Any]]:
    """Return the parameter grid of a study's full design."""
    return claims.design_points(suite.load_study(study, ROOT))


def written(name: str, data: bytes) -> Path:
    """Write a file into this process's folder."""
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def file_reader(name: str, read: Callable[[Path], Any]) -> Read:
    """Return a function that writes its input to a file and reads the file."""
    return lambda data: read(written(name, data))


def word(data: bytes) -> str:
    """Decode a word like Python decodes those of a command line."""
    return data.decode("utf-8", "surrogateescape")


def axis(name: str, **others: Any) -> Read:
    """Return a function that makes a condition with an axis's value."""
    return lambda data: cellspec.condition({**PATH, **others, name: word(data)}, names())


def read_number(data: bytes) -> float:
    """Read a number of the command line."""
    return reading.number(word(data))


def read_sweep(data: bytes) -> Any:
    """Return the cells of a sweep over an axis of numbers."""
    found = sweeps.values(AXES["loss_percent"], word(data))
    return sweeps.cells({"algorithm": ["cubic"], "loss_percent": found[:50]}, Path("sweep"))


def read_study(path: Path) -> Any:
    """Return the cells of all blocks of a study."""
    study = suite.load_study(path.stem, folder())
    config = {"studies": {path.stem: dict.fromkeys(study["blocks"], RUN)}}
    return design.load_studies(config, folder())


def read_claims(path: Path) -> Any:
    """Check claims against a study's cells, and return them."""
    claims.check_claims(path, "quic", parameter_grid("quic"))
    return reading.read_yaml(path)


def read_published(path: Path) -> Any:
    """Check published numbers against a study's cells, and return them."""
    own = suite.load_study("bufferbloat", ROOT).get("published_numbers", [])
    claims.check_published(path, parameter_grid("bufferbloat"), own)
    return reading.read_rows(path)


def read_trace(data: bytes) -> Any:
    """Read a trace of packet deliveries, as before a replicate."""
    path = written("trace", data)
    with reading.input_errors():
        return traces.parse(reading.read_text(path, reading.RESULT_BYTES), str(path))


def read_samples(data: bytes) -> Any:
    """Plot a run with the input as its TCP samples."""
    recorded = min(CELLS.glob("bulk_bbr*")) / "0"
    run = folder() / "run"
    if not run.exists():
        run.mkdir()
        for path in recorded.iterdir():
            (run / path.name.removesuffix(".gz")).write_bytes(_of(path))
    (run / "tcp.csv").write_bytes(data)
    # With the digests of a run that was measured so.
    manifest, host = (json.loads((run / name).read_text()) for name in (MANIFEST_FILE, HOST_FILE))
    write_json(manifest | integrity.listed(run), run / MANIFEST_FILE)
    write_json(integrity.sealed(_without(host, integrity.SELF), run), run / HOST_FILE)
    return plot.text([series.load(run)], 80)


def _without(data: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != key}


def _of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _recorded(name: str) -> list[bytes]:
    """Return recorded files of a name, without long fields."""
    return [_of(path) for path in sorted(CELLS.glob(f"*/{name}"))[:4]]


def _short_manifests() -> list[bytes]:
    manifests = [json.loads(each) for each in _recorded("0/manifest.json.gz")]
    for manifest in manifests:
        for key in ("plan", "machine"):
            manifest.pop(key, None)
        manifest["instrument"]["image"] = {"packages_sha256": "0" * 64}
    return [json.dumps(each).encode() for each in manifests]


def _conditions() -> list[bytes]:
    return [json.dumps(json.loads(each)["condition"]).encode() for each in _recorded("cell.json")]


CLAIM_ROW = (
    b"study,claim,sentence,source,evidence,published,measured,low,high,n,unit,tolerance,limit_is,"
    b"limit_because,verdict,reason,unsupported,absent,cause\n"
    b"loss,a,It is.,p. 1,order,NA,4.5,4,5,10,times,at least 4,ours,why,reproduced,NA,NA,NA,none\n"
)
CONFIG, STUDIES = ROOT / "config", ROOT / "config" / "studies"


def _scorecard() -> bytes:
    """Return a scorecard with one criterion."""
    asked_suite = suite.load_suite("rfc9743", ROOT)
    first = next(each for each in asked_suite["criteria"] if "at_most" in each)
    names_of_text = ("section", "title", "metric", "unit")
    row = {
        "algorithm": "mine", "criterion": first["id"], **{key: first[key] for key in names_of_text},
        "at_most": str(first["at_most"]), "at_least": "", "value": "2", "low": "1", "high": "3",
        "n": "5", "limit_is": "ours", "limit_because": "why", "verdict": "meets", "absent": "",
        "cells": "a",
    }  # fmt: skip
    cells = [{"cell": "a", "n_replicates": "5", "n_valid": "4"}]
    only = asked_suite | {"criteria": [first]}
    return json.dumps(scorecard.scorecard(only, "quick", ["mine"], [row], cells)).encode()


def _readers() -> list[Reader]:
    flows = [
        b"same,count=9+cubic,start_s=2", b"none", b"same,start_s=0.3,end_s=1.5+reno,rtt_ms=30",
        b"cubic,arrivals_per_s=20,size_kb=10,sizes=pareto+bbr,rate_mbit=1",
    ]  # fmt: skip
    words = [
        b"at_s=4,rate_mbit=5,rtt_ms=30+at_s=7,outage_s=0.05", b"none", b"at_s=1,loss_percent=2",
    ]  # fmt: skip
    schemes = [b"ewma,alpha=0.9,scale=1.5", b"fixed,window=7", b"bbr", b"timely", b"template"]
    datagrams = {"app": "datagram"}
    return [
        Reader("flows", flows, axis("flows"), check_flows),
        Reader("changes", words, axis("changes"), check_changes),
        Reader("drops", [b"data 12,57 ack 3", b"data none"], axis("drop_list"), check_condition),
        Reader("packets", [b"57,58", b"ack:3"], lambda d: whatif.packets(word(d)), nothing),
        Reader("scheme", schemes, axis("scheme", **datagrams), check_scheme),
        Reader("queue", [b"red-step", b"codel"], axis("queue"), check_condition),
        Reader("algorithm", [b"cubic", b"bbr"], axis("algorithm"), check_condition),
        Reader("number", [b"1", b"0.5", b"1e3", b"-2"], read_number, check_number),
        Reader("seed", [b"1", b"2147483647"], lambda d: cellspec.SEED(word(d)), check_number),
        Reader("sweep", [b"0:5", b"0,1,5", b"0:10:2", b"0.5:2:0.5"], read_sweep, check_sweep),
        Reader("kernel", [b"6.12", b"6.12+mine"], lambda d: kernels.of_key(word(d)), nothing),
        Reader(
            "condition", _conditions(),
            lambda d: cellspec.condition(reading.parse_json(word(d), "--condition"), names()),
            check_condition, "json",
        ),
        Reader(
            "campaign", [_of(CONFIG / f"{name}.yaml") for name in ("quic", "backends")],
            file_reader("fuzzed.yaml", lambda p: design.load_studies(reading.read_config(p), ROOT)),
            check_studies, "yaml",
        ),
        Reader(
            "study", [_of(STUDIES / f"{name}.yaml") for name in ("quic", "kernels", "cloud")],
            file_reader("config/studies/fuzzed.yaml", read_study), check_studies, "yaml",
        ),
        Reader(
            "suite", [_of(CONFIG / "suites" / "rfc9743.yaml")],
            file_reader("config/suites/fuzzed.yaml", lambda p: suite.load_suite(p.stem, folder())),
            require_finite, "yaml",
        ),
        Reader(
            "claims", [_of(ROOT / "report" / "claims" / "quic.yaml")],
            file_reader("claims.yaml", read_claims), check_limits, "yaml",
        ),
        Reader(
            "published", [_of(CONFIG / "published" / "bufferbloat.csv")],
            file_reader("published.csv", read_published), check_published,
        ),
        Reader(
            "algorithms", [_of(CONFIG / "algorithms.tsv")],
            file_reader("algorithms.tsv", study_names.load_algorithms), require_finite,
        ),
        Reader(
            "kernels.toml", [_of(CONFIG / "kernels.toml")],
            file_reader("kernels.toml", design.load_kernels), require_finite,
        ),
        Reader(
            "replace.toml", [_of(path) for path in ROOT.glob("containers/*/replace.toml")],
            file_reader("a/b/replace.toml", image.read_replacements), nothing,
        ),
        Reader(
            "manifest", _short_manifests(),
            file_reader("manifest.json", documents.read_manifest), require_finite, "json",
        ),
        Reader(
            "cell.json", _recorded("cell.json"),
            file_reader("cell.json", documents.read_cell), require_finite, "json",
        ),
        Reader(
            "host.json", _recorded("0/host.json"),
            file_reader("host.json", documents.read_host), require_finite, "json",
        ),
        Reader(
            "scorecard", [_scorecard()],
            file_reader("scorecard.json", scorecard.load), require_finite, "json",
        ),
        Reader(
            "claims.csv", [CLAIM_ROW],
            file_reader("claims.csv", lambda p: verdicts.table(verdicts.read_claims(p))), nothing,
        ),
        Reader(
            "verdicts", [b"\n".join(_of(ROOT / "report/verdicts.tsv").split(b"\n")[:6])],
            file_reader("verdicts.tsv", verdicts.read_recorded), nothing,
        ),
        Reader("trace", [b"0\n5\n5\n12\n40\n", b"1\n1000\n"], read_trace, check_trace),
        Reader("samples", [_of(path)[:1500].rpartition(b"\n")[0] for path in
               sorted(CELLS.glob("bulk_*/0/tcp.csv.gz"))], read_samples, nothing),
    ]  # fmt: skip


READERS = {reader.name: reader for reader in _readers()}
