"""Statement of a verification: sample, detection probability and limits."""

import json

from losslab.artifact import statement, verify
from losslab.campaign import audit, verification


def verdict(**more):
    every = [audit.Replicate(f"cell/{n}", False, True) for n in range(100)]
    found = verification.Verification(audit.Audit(replicates=every, metrics={"goodput_mbit"}))
    drawn = [f"cell/{n}" for n in range(20)]
    facts = {"results": found, "drawn": drawn, "same": drawn, "files": 400} | more
    return verify.Verdict(7, **facts)


def test_statement_gives_the_detection_probability():
    text = statement.statement(verdict())
    assert "20 of 20 replicates, drawn at random from 100" in text
    assert "losslab artifact verify FOLDER --sample 20 --seed 7" in text
    assert "10 % forged (10): probability 0.0951" in text
    assert "bytes of the 80 of 100 replicates not run again" in text
    assert "identity (--signer" in text
    assert text.endswith("\nVERIFIED")


def test_rerunning_all_replicates_detects_every_forgery():
    every = [f"cell/{n}" for n in range(100)]
    words = statement.statement(verdict(drawn=every, same=every))
    assert "1 % forged (1): probability 0\n" in words
    assert "20 % forged (20): probability 0\n" in words


def test_finding_prevents_verification():
    found = verdict(findings=[audit.Finding("files", "a", "missing")])
    assert not found.good
    assert statement.statement(found).endswith("\nNOT VERIFIED")
    assert "probability" not in statement.statement(found)
    assert json.loads(json.dumps(statement.facts(found), default=sorted))["findings"] == [
        {"stage": "files", "path": "a", "what": "missing"}
    ]


def test_verification_needs_at_least_one_rerun():
    assert not verdict(same=[], cannot={"cell/1": "no kernel"}).good
