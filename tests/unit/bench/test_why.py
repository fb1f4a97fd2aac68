"""Recorded cases of `losslab why`, and their tables."""

from dataclasses import replace

from bench import why


def test_tables_of_the_page_are_those_of_the_recorded_cases():
    text = why.PAGE.read_text()
    assert why.page(text, why.read()) == text


def test_every_recorded_cause_was_found_in_time():
    cases = why.read()
    kinds = [case.kind for case in cases]
    assert (kinds.count("planted"), kinds.count("stall")) == (20, 10)
    assert all(case.found and case.core_s <= why.LIMIT_S for case in cases)
    stalls = [case for case in cases if case.kind == "stall"]
    assert len({case.seed for case in stalls}) == 10
    assert all(case.without_s < case.stall_s for case in stalls)


def test_a_cause_that_was_not_found_is_counted_and_shown(tmp_path):
    cases = why.read()
    cases[0] = replace(cases[0], found=False)
    assert "| 19 of 20 |" in why.tables(cases)["why"]
    why.write(cases, tmp_path / "cases.csv")
    assert why.read(tmp_path / "cases.csv") == cases
