"""Every prompt comes back from the pool as it went in, and shared text is kept once."""

from __future__ import annotations

import base64
import random
import zlib

from hypothesis import given
from hypothesis import strategies as st

from ropewalk.report.prompt_pool import PromptPool, Runs, deflated, excerpt


def _inflated(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text), -15)


def _read(pool: PromptPool, runs: Runs) -> bytes:
    data = _inflated(pool.packed())
    return b"".join(data[start : start + size] for start, size in runs if start >= 0)


@given(st.lists(st.text(alphabet=st.sampled_from("ab.\n é日\u202e\x00")), max_size=8))
def test_prompts_come_back_byte_for_byte(texts: list[str]) -> None:
    pool = PromptPool(100_000)
    kept = [pool.add([text]) for text in texts]
    for text, runs in zip(texts, kept, strict=True):
        assert runs is not None
        assert _read(pool, runs) == text.encode()


@given(st.lists(st.binary(max_size=400), max_size=30), st.integers(0, 600))
def test_the_pool_never_exceeds_its_budget(blobs: list[bytes], budget: int) -> None:
    pool = PromptPool(budget)
    for blob in blobs:
        pool.add([blob.decode("latin-1")])
    assert len(pool.packed()) <= max(budget, len(deflated(b"")))


def test_a_haystack_with_the_needle_elsewhere_costs_almost_nothing() -> None:
    chance = random.Random(1)
    sentences = [f"The {chance.random()} of {chance.random()} is so. " for _ in range(800)]
    pool = PromptPool(10**9)
    first = "Needle. " + "".join(sentences)
    pool.add([first])
    one = len(pool.packed())
    for place in range(50, 800, 50):
        runs = pool.add(["".join(sentences[:place]) + "Needle. " + "".join(sentences[place:])])
        assert runs is not None
        assert len(runs) <= 3
    assert len(pool.packed()) < one * 1.02


def test_a_shuffled_haystack_does_not_become_thousands_of_runs() -> None:
    chance = random.Random(2)
    sentences = [f"Line {i}.\n" for i in range(1000)]
    pool = PromptPool(10**9)
    pool.add(["".join(sentences)])
    chance.shuffle(sentences)
    runs = pool.add(["".join(sentences)])
    assert runs is not None
    assert len(runs) == 1
    assert _read(pool, runs) == "".join(sentences).encode()


def test_lone_surrogates_become_escapes() -> None:
    pool = PromptPool(1000)
    runs = pool.add(["a\udc80b"])
    assert runs is not None
    assert _read(pool, runs) == b"a\\udc80b"


def test_a_refused_prompt_leaves_the_pool_as_it_was() -> None:
    pool = PromptPool(200)
    pool.add(["short. "])
    before = pool.packed()
    assert pool.add(["".join(str(random.Random(i).random()) for i in range(99))]) is None
    assert pool.packed() == before


@given(st.text(max_size=3000), st.text(max_size=5))
def test_an_excerpt_accounts_for_every_character(text: str, needle: str) -> None:
    parts = excerpt(text, needle)
    assert sum(part if isinstance(part, int) else len(part) for part in parts) == len(text)
    place = 0
    for part in parts:
        if isinstance(part, int):
            assert part > 0
            place += part
        else:
            assert text[place : place + len(part)] == part
            place += len(part)


def test_an_excerpt_shows_head_needle_and_tail() -> None:
    text = "HEAD " + "x" * 5000 + " the code is 4711 " + "y" * 5000 + " TAIL"
    parts = excerpt(text, "4711")
    assert [type(part) for part in parts] == [str, int, str, int, str]
    assert "HEAD" in str(parts[0])
    assert "the code is 4711" in str(parts[2])
    assert "TAIL" in str(parts[4])
