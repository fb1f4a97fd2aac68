"""Digests of the code whose change makes Snakemake run a rule again."""

from __future__ import annotations

from losslab.campaign import codedigest, fingerprint
from losslab.study import metrics
from losslab.study.condition import AXES


def collect_digest() -> list[str]:
    """Return the digest of the code that collects a study's cells, and its columns of axes."""
    code = (fingerprint.PACKAGE / "campaign" / name for name in ("celldata.py", "collect.py"))
    return [codedigest.of_files(code), *AXES]


def stopping_rule() -> list[str]:
    """Return the digest of the stopping rule's code, and the metrics that it uses."""
    code = (fingerprint.PACKAGE / "study" / name for name in ("stopping.py", "intervals.py"))
    return [codedigest.of_files(code), *metrics.primary_names()]
