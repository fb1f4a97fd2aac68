"""The recorded verdicts of both families of seeds, and the page that compares them."""

from losslab.reading import read_rows


def verdicts(root, name):
    columns = ("study", "claim", "verdict")
    rows = read_rows(root / "report" / "verdicts" / name, columns=columns, delimiter="\t")
    return {(row["study"], row["claim"]): row["verdict"] for row in rows}


def test_page_has_the_number_of_verdicts_that_fresh_seeds_change(root):
    first, fresh = verdicts(root, "quick.tsv"), verdicts(root, "quick-fresh.tsv")
    assert first.keys() == fresh.keys()
    changed = [{first[claim], fresh[claim]} for claim in first if first[claim] != fresh[claim]]
    assert all("inconclusive" in pair for pair in changed)
    page = " ".join((root / "docs/how-to/campaign.md").read_text().split())
    same = len(first) - len(changed)
    assert f"Of {len(first)} verdicts, {same} are the same" in page
    assert f"each of the other {len(changed)} is *inconclusive*" in page
