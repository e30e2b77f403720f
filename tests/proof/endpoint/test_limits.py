import pytest

from ropewalk.proof.endpoint.policy import RequestGate, TokenBucket


class Clock:
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("per_minute", "amount"), [(6, 1), (60, 1), (600, 1), (1000, 170), (7, 3)])
def test_no_minute_sees_more_than_the_limit_and_none_of_it_is_wasted(
    per_minute: int, amount: int
) -> None:
    clock = Clock()
    bucket = TokenBucket(per_minute, clock)
    sent = []
    while clock.now < 1000 + 600:
        clock.wait(bucket.take(amount))
        sent.append(clock.now)
    for begin in sent:
        within = sum(amount for at in sent if begin <= at < begin + 60)
        # What is more than the bucket holds is let through once it is full, and paid back.
        assert within <= per_minute + (amount if amount > 1 else 0)
    assert sum(amount for at in sent if at < 1600) >= 0.9 * per_minute * 10


def test_a_gate_keeps_both_rates_and_the_pause_that_a_server_asked_for() -> None:
    clock = Clock()
    gate = RequestGate(60, 6000, clock, clock.wait)
    for _ in range(10):
        gate.enter(10)
    assert clock.now == pytest.approx(1000 + 9 * 61 / 60, abs=0.2)
    before = clock.now
    gate.enter(3000)
    gate.enter(10)
    assert clock.now - before == pytest.approx(30, abs=2)
    before = clock.now
    gate.close(7)
    gate.enter(1)
    assert clock.now - before == pytest.approx(7, abs=0.1)


def test_without_rates_nothing_waits_and_a_stop_ends_every_wait() -> None:
    clock = Clock()
    gate = RequestGate(None, None, clock, clock.wait)
    gate.enter(10**9)
    assert clock.now == 1000
    stopped = RequestGate()
    stopped.stop.set()
    stopped.sleep(3600)
