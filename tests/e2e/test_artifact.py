"""An artifact, packed, moved and verified by re-running; and with a byte changed in it."""

import json
import shutil
import subprocess

import pytest

from losslab.artifact import pack, results, verify
from losslab.campaign import cellrun
from losslab.campaign.instrument import instrument
from losslab.study.condition import Condition
from losslab.study.stopping import StoppingRule

# Of a few packets: 5 Mbit/s for two seconds.
CONDITION = Condition.from_json(
    {"algorithm": "cubic", "rate_mbit": 5, "rtt_ms": 20, "duration_s": 2, "warmup_s": 0}
)


@pytest.fixture(scope="module")
def artifact(root, tmp_path_factory):
    """A campaign of one cell, packed from one folder and unpacked in another."""
    # `make test` installs it.
    pytest.importorskip("rocrate", reason="scripts/group.sh artifact")
    work = tmp_path_factory.mktemp("campaign")
    cell = work / "results/cells/loss/small"
    cell.mkdir(parents=True)
    count = cellrun.run_cell(CONDITION, cell, StoppingRule(2, 2, None), instrument(), None)
    row = cellrun.cell_result("loss", "main", CONDITION, cell, count)
    (cell / "cell.json").write_text(json.dumps(row))
    head = "study,claim,sentence,published,measured,low,high,n,unit,verdict\n"
    (work / "results/claims.csv").write_text(head)

    def sources(folder):
        folder.mkdir()
        shutil.copy(root / "Snakefile", folder)

    with pytest.MonkeyPatch.context() as patch:
        # A working copy in which somebody works is no commit.
        patch.setattr(pack, "_export_sources", sources)
        archive = pack.pack(work, "config/quick.yaml", work / "out/a.tar.gz", 100, False)
    moved = tmp_path_factory.mktemp("elsewhere")
    subprocess.run(["tar", "-xzf", archive, "-C", moved], check=True)
    return moved / pack.NAME


def test_it_verifies_where_it_was_moved(artifact):
    found = verify.verify(artifact, 2, "2026-01-31")
    assert len(found.same) == 2
    assert found.good, verify.statement(found)


def test_a_changed_byte_is_found_even_where_its_digest_was_changed_too(artifact):
    file = artifact / "results/cells/loss/small/1/tcp.csv"
    content = bytearray(file.read_bytes())
    # A number's last digit, so that nothing but its bytes is wrong.
    place = len(content) - 2
    content[place] = ord("1") if content[place] != ord("1") else ord("2")
    file.write_bytes(content)
    name = str(file.relative_to(artifact))
    assert verify.wrong_files(artifact, results.read_digests(artifact)) == [name]
    results.write_digests(artifact, results.files(artifact), artifact / results.DIGESTS)
    found = verify.verify(artifact, 2, "2026-01-31")
    assert found.different == {"results/cells/loss/small/1": "tcp.csv: another file"}
    assert found.same == ["results/cells/loss/small/0"]
    assert verify.statement(found).endswith("NOT VERIFIED")
