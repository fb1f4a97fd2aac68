"""Digests of the code whose change makes Snakemake run a rule again."""

from __future__ import annotations

from losslab.campaign import codedigest, fingerprint
from losslab.study import metrics


def collect_digest() -> str:
    """Return the digest of the code that collects a study's cells."""
    names = ("celldata.py", "collect.py")
    return codedigest.of_files(fingerprint.PACKAGE / "campaign" / name for name in names)


def stopping_rule() -> list[str]:
    """Return the digest of the stopping rule's code, and the metrics that it uses."""
    code = (fingerprint.PACKAGE / "study" / name for name in ("stopping.py", "intervals.py"))
    return [codedigest.of_files(code), *metrics.primary_names()]
