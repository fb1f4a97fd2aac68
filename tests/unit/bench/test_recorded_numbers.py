"""Recorded numbers of benches, and the pages that show them."""

from bench import one_packet, verdict_errors, why


def test_pages_show_the_recorded_numbers():
    benches = (one_packet, verdict_errors, why)
    texts = {bench: bench.PAGE.read_text() for bench in benches}
    assert [
        bench.__name__
        for bench, text in texts.items()
        if bench.page(text, bench.read()) != text
    ] == []  # fmt: skip


def test_every_recorded_cause_was_found_in_time():
    cases = why.read()
    kinds = [case.kind for case in cases]
    assert (kinds.count("planted"), kinds.count("stall")) == (20, 10)
    assert all(case.found and case.core_s <= why.LIMIT_S for case in cases)
    stalls = [case for case in cases if case.kind == "stall"]
    assert len({case.seed for case in stalls}) == 10
    assert all(case.without_s < case.stall_s for case in stalls)
