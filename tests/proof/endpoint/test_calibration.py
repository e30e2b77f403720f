import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import EndpointError
from ropewalk.proof.endpoint.counting import Counting, calibrate


@given(st.integers(0, 300), st.floats(0.3, 3.0), st.integers(200, 200_000))
def test_three_probes_find_what_is_added_and_the_tokens_of_each_of_ours(
    added: int, ratio: float, length: int
) -> None:
    own = (3, 154, 460)
    counting = calibrate(own, [round(added + ratio * n) for n in own], exact=False, url="u")
    assert counting.expected(1000) == pytest.approx(added + ratio * 1000, abs=4)
    if length > added:
        ours = counting.own(length)
        assert counting.expected(ours) <= length + 1
        assert counting.expected(ours + 2) + 2 > length


def test_a_count_without_what_was_cached_is_whole_with_it() -> None:
    """As SGLang's and Anthropic's counts are; OpenAI's hold it."""
    counting = Counting(17)
    assert counting.whole(1000, 57, 960) == 1017
    assert not counting.seems_cut(1000, 57, 960)
    assert counting.seems_cut(1000, 57, None)
    # Half of it read and most of that cached is no whole.
    assert counting.seems_cut(1000, 500, 480)
    seen = Counting(17, apart=False)
    assert seen.seems_cut(1000, 510, 507)


def test_the_servers_own_tokenizer_counts_to_the_token() -> None:
    counting = calibrate((3, 154, 460), (20, 171, 477), exact=True, url="u")
    assert (counting.overhead, counting.ratio, counting.cut_at) == (17, 1, None)
    assert counting.own(1017) == 1000
    assert not counting.seems_cut(1000, 1015, 0)
    assert counting.seems_cut(1000, 1010, 1000)


def test_a_tokenizer_that_is_not_the_servers_is_refused() -> None:
    with pytest.raises(EndpointError, match="counts 190 tokens where the tokenizer counts 154"):
        calibrate((3, 154, 460), (3, 190, 570), exact=True, url="u")


@pytest.mark.parametrize("exact", [True, False])
def test_a_cut_at_2048_as_ollama_makes_it_is_seen_by_the_count_alone(exact: bool) -> None:
    """Its log: a prompt of any length beyond, answered with status 200, prompt_eval_count 2050."""
    counting = calibrate((3, 154, 460), (3, 154, 460), exact=exact, url="u")
    assert counting.seems_cut(4000, 2050, None)
    assert counting.seems_cut(4000, 2050, 2048)
    assert not counting.seems_cut(2048, 2050, None)


def test_a_cut_of_the_longest_probe_is_noticed() -> None:
    counting = calibrate((3, 154, 460), (3, 154, 256), exact=True, url="u")
    assert counting.cut_at == 256
    assert counting.expected(460) == 460
    with pytest.raises(EndpointError, match="cuts prompts already at that length"):
        calibrate((3, 154, 460), (3, 8, 8), exact=False, url="u")


def test_a_silent_server_is_taken_at_our_count_and_that_is_said() -> None:
    counting = calibrate((3, 154, 460), (None, None, None), exact=True, url="u")
    assert counting == Counting(told=False)
    assert not counting.seems_cut(1000, None, None)
    assert "a cut prompt would not be seen" in counting.words()
