"""Places for facts: near enough to every depth of every length, one for several where it can."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ropewalk.proof.documents import TOLERANCE, plan_spots

LADDER = st.lists(st.integers(200, 100_000), min_size=1, max_size=6, unique=True)
DEPTHS = st.integers(2, 21).map(lambda count: [step / (count - 1) for step in range(count)])


@given(LADDER, DEPTHS, st.integers(8, 60))
def test_every_depth_below_one_has_a_place_of_its_own_within_the_tolerance(
    lengths: list[int], depths: list[float], fact: int
) -> None:
    rooms = {length: length - 60 for length in lengths}
    spots = plan_spots(rooms, depths, fact)
    assert list(spots.places) == sorted(set(spots.places))
    assert set(spots.of) == {(length, d) for length in lengths for d in depths if d < 1}
    for (length, depth), index in spots.of.items():
        wanted = depth * max(0, rooms[length] - fact)
        assert abs(spots.places[index] - wanted) <= TOLERANCE * rooms[length] + 1
    for length in lengths:
        chosen = [spots.of[length, d] for d in depths if d < 1]
        assert chosen == sorted(set(chosen))
    assert set(spots.of.values()) == set(range(len(spots.places)))


def test_doubling_lengths_share_about_half_of_their_places() -> None:
    rooms = {length: length - 60 for length in (512, 1024, 2048, 4096, 8192)}
    spots = plan_spots(rooms, [step / 10 for step in range(11)], 18)
    # Ten depths below 1 at five lengths; each longer one has five between those of the shorter.
    assert 28 <= len(spots.places) <= 32
