"""Delta debugging of lists."""

import random

import pytest

from losslab_timetravel.why import Reduction


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
