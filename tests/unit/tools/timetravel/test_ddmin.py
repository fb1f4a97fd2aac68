"""Delta debugging of lists, and continuing a search that was cut off."""

import random

import pytest

from losslab.tools.timetravel.futures import Drop
from losslab.tools.timetravel.symptoms import Symptom
from losslab.tools.timetravel.why import Reduction, Verdicts


def minimal(items, shows, at_once=1):
    """Minimise, and count the calls; none may repeat."""
    seen = []

    def counted(part):
        assert tuple(part) not in seen
        seen.append(tuple(part))
        return shows(part)

    return Reduction(counted, at_once).minimise(items), len(seen)


@pytest.mark.parametrize("cause", [(7,), (1, 2), (0, 99), (3, 40, 77), tuple(range(10, 20))])
@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_the_only_cause_is_found(cause, at_once):
    found, runs = minimal(range(100), lambda part: {*cause} <= {*part}, at_once)
    assert found == [*cause]
    assert runs < 150 + 30 * at_once


@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("last", [0, 1, 49, 98, 99])
def test_the_shortest_prefix_ends_with_the_last_item_of_the_cause(last, at_once):
    found = Reduction(lambda part: last in part, at_once).prefix(range(100))
    assert found == [*range(last + 1)]


def test_a_symptom_without_any_item_has_an_empty_cause():
    assert minimal([1, 2, 3], lambda part: True) == ([], 1)


def test_every_found_list_is_1_minimal_for_symptoms_that_are_not_monotonic():
    draw = random.Random(5)
    for _ in range(50):
        items = list(range(draw.randrange(1, 30)))
        pairs = [{draw.choice(items), draw.choice(items)} for _ in range(3)]

        def shows(part, pairs=pairs):
            return len(part) % 5 != 4 and any(pair <= {*part} for pair in pairs)

        if not shows(items):
            continue
        found, _ = minimal(items, shows)
        assert shows(found)
        assert not any(shows([n for n in found if n != without]) for without in found)


def test_a_search_continues_where_it_was_cut_off(tmp_path):
    stall = Symptom("stall", 1.0, 2.0, lambda future, other: True)
    drops = [Drop("data", number, number / 10, 1500) for number in range(30)]

    def search(limit, run="run"):
        """Search with at most `limit` futures; return the cause and the number of futures."""
        verdicts, count = Verdicts(tmp_path / "why", run), 0

        def shows(places):
            def future():
                nonlocal count
                if count == limit:
                    raise KeyboardInterrupt
                count += 1
                return {3, 17} <= {*places}

            return verdicts.of(stall, 0.5, [drops[at] for at in places], future)

        return Reduction(shows).minimise(range(30)), count

    found, whole = search(None)
    assert found == [3, 17]
    assert search(None) == ([3, 17], 0)
    (tmp_path / "why.search").unlink()
    with pytest.raises(KeyboardInterrupt):
        search(whole - 5)
    with (tmp_path / "why.search").open("a") as file:
        file.write("half a line\n")
    assert search(None, "another run") == ([3, 17], whole)
    assert search(None) == ([3, 17], 5)
