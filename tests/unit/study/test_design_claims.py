"""The cells that claims and causes need, in the quick campaign and in the campaign of claims."""

import pytest

from losslab.reading import read_yaml
from losslab.study import design, studyfiles
from losslab.study.intervals import StoppingRule
from losslab.study.studyfiles import matches

# Claims whose runs take too long for the short campaigns.
NOT_IN_QUICK = ("alpha", "beta", "ewma-other-trace")


def claimed_cells(study, root):
    """Return the cells of a study that its claims select, without claims about all cells."""
    for claim in read_yaml(studyfiles.file(root, study.name, studyfiles.CLAIMS))["claims"]:
        meant = [*meant_cells(study, claim)]
        # Quick has a part of the predictions: others need BBRv3's kernel or longer runs.
        absent = claim["evidence"] == "predicted" and not all(meant)
        if claim["id"] in NOT_IN_QUICK or absent:
            continue
        assert all(meant), f"{study.name}: claim {claim['id']} means no cell"
        yield from (cell for cells in meant for cell in cells)


def cells_of_causes(study, root):
    """Return the cells of a study that show the causes of its claims' verdicts, and lead there."""
    for claim in read_yaml(studyfiles.file(root, study.name, studyfiles.CLAIMS))["claims"]:
        sentences = claim.get("reason", [])
        causes = [place for place, sentence in enumerate(sentences) if sentence.get("cause")]
        for sentence in sentences[: causes[-1] + 1] if causes else []:
            if "shown_by" in sentence:
                meant = meant_cells(study, sentence["shown_by"])
                yield from (cell for cells in meant for cell in cells)


def meant_cells(study, claim):
    """Yield the lists of cells that a claim, or the evidence of a reason, compares."""
    cells = {c.name: ({"block": c.block, **c.condition.to_json()}, c) for c in study.cells}
    where = claim.get("where", {})
    for wanted in (where, where | claim.get("against", {}), claim.get("others", where)):
        if where != {}:
            yield [cell for values, cell in cells.values() if matches(values, wanted)]


@pytest.mark.parametrize("name", ["quick", "claims"])
def test_short_campaign_has_ten_replicates_of_every_cell_of_a_claim_unless_it_is_precise(
    root, name
):
    for study in design.load_studies(read_yaml(root / f"config/campaigns/{name}.yaml"), root):
        rules = {cell.name: cell.stopping for cell in claimed_cells(study, root)}
        usual = {StoppingRule(5, most, 0.5) for most in (10, 20, 30)}
        # Runs on one trace hardly differ, and last 140 s.
        traced = {cell.name for cell in study.cells if cell.block == "source-trace"}
        few = {cell for cell, rule in rules.items() if rule not in usual and cell not in traced}
        assert few == set(), study.name


def test_claims_campaign_has_the_quick_cells_of_the_sources_claims_and_causes(root):
    def studies(name):
        config = read_yaml(root / f"config/campaigns/{name}.yaml")
        return {study.name: study for study in design.load_studies(config, root)}

    quick, claims = studies("quick"), studies("claims")
    assert set(quick) - set(claims) == {"calibration", "predictions", "score"}
    for name, study in claims.items():
        claimed = {*claimed_cells(quick[name], root), *cells_of_causes(quick[name], root)}
        assert set(study.cells) == claimed
