"""Places for gaps: near enough to every depth of every length, one for several where it can."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ropewalk.proof.gap_places import MOST_GAPS, TOLERANCE, plan_places

LADDER = st.lists(st.integers(200, 100_000), min_size=1, max_size=6, unique=True)
DEPTHS = st.integers(2, 21).map(lambda count: [step / (count - 1) for step in range(count)])


@given(LADDER, DEPTHS, st.integers(8, 60))
def test_every_depth_below_one_has_one_place_within_the_tolerance_and_gaps_stay_few(
    lengths: list[int], depths: list[float], gap: int
) -> None:
    rooms = {length: length - 60 for length in lengths}
    readings = plan_places(rooms, depths, gap)
    keys = [key for reading in readings for key in reading.of]
    assert sorted(keys) == sorted((length, d) for length in lengths for d in depths if d < 1)
    for reading in readings:
        assert list(reading.places) == sorted(set(reading.places))
        assert set(reading.of.values()) == set(range(len(reading.places)))
        for (length, depth), index in reading.of.items():
            wanted = depth * max(0, rooms[length] - gap)
            assert abs(reading.places[index] - wanted) <= TOLERANCE * rooms[length] + 1
        for length in reading.lengths:
            chosen = [reading.of[length, d] for d in depths if (length, d) in reading.of]
            assert len(set(chosen)) == len(chosen)
            before = sum(place < rooms[length] for place in reading.places)
            assert before <= max(1, MOST_GAPS * rooms[length] / gap)


def test_long_lengths_share_one_reading_and_short_ones_are_read_again() -> None:
    rooms = {length: length - 80 for length in (1024, 2048, 4096, 8192)}
    five = [step / 4 for step in range(5)]
    assert len(plan_places(rooms, five, 35)) == 1
    (first, *others) = plan_places({512: 432} | rooms, five, 35)
    assert 8192 in first.lengths
    assert others
    assert all(max(each.lengths) <= 1024 for each in others)


def test_without_a_depth_below_one_there_is_one_reading_without_gaps() -> None:
    (reading,) = plan_places({512: 400}, [1.0], 35)
    assert (reading.places, reading.lengths) == ((), set())
