"""Cost of single losses: the page and its numbers."""

from dataclasses import replace

from bench import one_packet


def test_sentences_of_the_page_are_those_of_the_recorded_numbers():
    text = one_packet.PAGE.read_text()
    assert one_packet.page(text, one_packet.read()) == text


def test_sentences_follow_the_numbers():
    rows = one_packet.read()
    costly = [replace(row, soon_kb=50.0, end_kb=-1.0) for row in rows]
    text = " ".join(one_packet.sentences(costly)["result"].split())
    assert (
        "0.1 s after the loss, the first loss had cost 50 (50 to 50) kB, which is more than nothing"
    ) in text
    assert "One of the next 9 had cost -1 (-1 to -1) kB, which is less than nothing." in text
    mixed = [replace(row, soon_kb=(-1.0) ** row.replicate) for row in rows]
    text = " ".join(one_packet.sentences(mixed)["result"].split())
    assert "which is inconclusive. One of the next 9 " in text


def test_recorded_numbers_are_of_ten_losses_in_their_order_in_each_replicate():
    rows = one_packet.read()
    for number in {row.replicate for row in rows}:
        its = [row for row in rows if row.replicate == number]
        assert [row.loss for row in its] == [*range(1, 11)]
        assert its == sorted(its, key=lambda row: row.packet)
