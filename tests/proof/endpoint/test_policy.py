from random import Random

import pytest

from ropewalk.proof.endpoint.policy import backoff, retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, 60),
        ({"retry-after": "Fri, 31 Dec 1999 00:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_both_forms_of_its_standard(
    headers: dict[str, str], seconds: float | None
) -> None:
    """The date is the example of RFC 9110, section 10.2.3."""
    assert retry_after(headers, now=946684799.0 - 60) == seconds


def test_pauses_grow_and_are_drawn_between_nothing_and_their_end() -> None:
    random = Random(0)
    for tries, end in ((1, 1.0), (3, 4.0), (20, 30.0)):
        drawn = [backoff(tries, random) for _ in range(400)]
        assert 0 <= min(drawn) < 0.1 * end
        assert 0.9 * end < max(drawn) <= end
