"""Scoring held against transformers' own generate and against full forward passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from ropewalk.proof.cells import Cell, Control, Outcome, Prompt
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.subjects.calls import SMALLEST_CHUNK
from ropewalk.proof.subjects.local import LocalSubject
from ropewalk.proof.tokens import Tokens

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel

Ask = Callable[..., Prompt]


@pytest.fixture(scope="module")
def tokens(tiny_tokenizer: Callable[[str], Any]) -> Tokens:
    return Tokens(tiny_tokenizer("bos"))


@pytest.fixture(scope="module")
def ask(tokens: Tokens) -> Ask:
    """ask(length, **settings): a prompt by the tiny tokenizer."""
    return lambda length=300, **settings: PromptMaker(tokens, **settings)(Cell(length, 0.5, 0))


def generated(model: Any, prompt: Prompt, count: int) -> list[int]:
    ids = torch.tensor([prompt.token_ids])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False
    )
    return [int(i) for i in out[0, len(prompt.token_ids) :]]


def scored(model: Any, prompt: Prompt) -> float:
    """The value's log-probability from one pass that keeps every logit."""
    ids = torch.tensor([[*prompt.token_ids, *prompt.value_ids]])
    with torch.inference_mode():
        told = model(ids, use_cache=False).logits[0].double().log_softmax(-1)
    start = len(prompt.token_ids) - 1
    return sum(float(told[start + i, token]) for i, token in enumerate(prompt.value_ids))


def check(model: Any, tokens: Tokens, prompt: Prompt, subject: LocalSubject) -> Outcome:
    """The answer says what greedy generation prints, and scores what a full pass scores."""
    answer = subject.answer(prompt)
    said = generated(model, prompt, len(prompt.value_ids) + 1)
    text = tokens.decode(said)
    after = tokens.decode(said[len(prompt.value_ids) :])
    value_first = said[: len(prompt.value_ids)] == list(prompt.value_ids)
    assert (answer.outcome is Outcome.HIT) == (value_first and not after[:1].isdigit())
    assert answer.printed == (prompt.value if answer.outcome is Outcome.HIT else text)
    assert answer.log_probability == pytest.approx(scored(model, prompt), abs=1e-3)
    return answer.outcome


def with_value(prompt: Prompt, tokens: Tokens, value: str) -> Prompt:
    ids = tokens.continuation(prompt.text, f" {value}", special=True)
    return replace(prompt, value=value, value_ids=ids)


@pytest.mark.model
def test_teacher_forcing_says_what_a_real_model_prints(smollm2: LoadedModel) -> None:
    tokens = Tokens(smollm2.tokenizer)
    subject = LocalSubject(smollm2.model, tokens)
    plain, crowded = PromptMaker(tokens, seed=1), PromptMaker(tokens, seed=1, distractors=6)
    found = plain(Cell(130, 0.5, 0))
    prompts = [
        found,
        plain(Cell(0, 0.0, 0, Control.NEEDLE_ONLY)),
        plain(Cell(130, 0.0, 0, Control.NO_NEEDLE)),
        crowded(Cell(400, 0.0, 1, Control.NO_NEEDLE)),
        # Left at the first, a middle and the last token of the value, and not at its end.
        with_value(found, tokens, "9" + found.value[1:] if found.value[0] != "9" else "10000"),
        with_value(found, tokens, found.value[:2] + "000"),
        with_value(found, tokens, found.value[:4]),
    ]
    outcomes = [check(smollm2.model, tokens, prompt, subject) for prompt in prompts]
    assert outcomes[:2] == [Outcome.HIT, Outcome.HIT]
    assert outcomes[2] is Outcome.MISS
    assert Outcome.HIT not in outcomes[3:]


@pytest.mark.model
def test_a_chat_answer_is_what_a_real_model_generates(smollm2: LoadedModel) -> None:
    tokens = Tokens(smollm2.tokenizer)
    maker = PromptMaker(tokens, chat=True)
    subject = LocalSubject(smollm2.model, tokens, chat=True)
    for cell in (Cell(160, 0.5, 0), Cell(160, 0.0, 0, Control.NO_NEEDLE)):
        prompt = maker(cell)
        answer = subject.answer(prompt)
        text = tokens.decode(generated(smollm2.model, prompt, prompt.budget))
        assert answer.printed in (text, prompt.value if text.startswith(prompt.value) else text)
        assert (answer.outcome is Outcome.HIT) == (cell.control is Control.NONE)


@pytest.mark.model
def test_a_real_prompt_in_chunks_is_the_prompt_in_one_pass(smollm2: LoadedModel) -> None:
    tokens = Tokens(smollm2.tokenizer)
    for control in (Control.NONE, Control.NO_NEEDLE):
        prompt = PromptMaker(tokens)(Cell(160, 0.5, 0, control))
        whole = LocalSubject(smollm2.model, tokens).answer(prompt)
        cut = LocalSubject(smollm2.model, tokens, chunk=64).answer(prompt)
        assert (cut.outcome, cut.printed) == (whole.outcome, whole.printed)
        assert cut.log_probability == pytest.approx(whole.log_probability, abs=1e-4)


@pytest.mark.parametrize("chunk", [None, 48, 64, 5000])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_any_chunk_and_any_window_score_and_print_as_generate_does(
    kind: str,
    chunk: int | None,
    tiny_model: Callable[..., Any],
    tokens: Tokens,
    ask: Ask,
) -> None:
    """A window of 32 tokens has dropped what a cut back cache would need."""
    model = tiny_model(kind, sliding_window=32) if kind == "gemma3" else tiny_model(kind)
    prompt = ask()
    subject = LocalSubject(model, tokens, chunk=chunk)
    check(model, tokens, prompt, subject)
    first = generated(model, prompt, 3)
    # A value that begins as the model goes on, so that it is left in the middle.
    check(model, tokens, replace(prompt, value_ids=(*first[:2], *prompt.value_ids[2:])), subject)


class Spy:
    """A model that notes the tokens and the logits of every call, and may have little memory."""

    def __init__(self, model: Any, most: int = 1 << 30) -> None:
        self.model = model
        self.most = most
        self.calls: list[tuple[int, int]] = []
        self.forward = model.forward
        self.device, self.dtype, self.config = model.device, model.dtype, model.config

    def __call__(self, ids: torch.Tensor, *, logits_to_keep: int, **rest: Any) -> Any:
        if ids.shape[1] > self.most:
            raise torch.OutOfMemoryError(f"no room for {ids.shape[1]} tokens")
        out = self.model(ids, logits_to_keep=logits_to_keep, **rest)
        self.calls.append((ids.shape[1], out.logits.shape[1]))
        return out


def test_the_prompt_goes_through_in_one_call_with_logits_where_the_value_is(
    tiny_model: Callable[..., Any], tokens: Tokens, ask: Ask
) -> None:
    spy, prompt = Spy(tiny_model()), ask()
    LocalSubject(spy, tokens).answer(prompt)
    value = len(prompt.value_ids)
    assert spy.calls[0] == (len(prompt.token_ids) + value, value + 1)
    assert set(spy.calls[1:]) <= {(1, 1)}
    assert len(spy.calls) <= value + 1


def test_out_of_memory_halves_the_chunk_and_goes_on(
    tiny_model: Callable[..., Any], tokens: Tokens, ask: Ask
) -> None:
    prompt = ask(2000)
    roomy, tight = Spy(tiny_model()), Spy(tiny_model(), most=600)
    subject = LocalSubject(tight, tokens)
    first = subject.answer(prompt)
    assert first.log_probability == pytest.approx(
        LocalSubject(roomy, tokens).answer(prompt).log_probability, abs=1e-3
    )
    prefill = [size for size, _ in tight.calls if size > 1]
    assert sum(prefill) == len(prompt.token_ids) + len(prompt.value_ids)
    assert max(prefill) == 500
    assert {kept for _, kept in tight.calls[: len(prefill) - 1]} == {1}
    tight.calls.clear()
    subject.answer(prompt)
    assert [size for size, _ in tight.calls if size > 1] == prefill


def test_what_does_not_fit_the_smallest_chunk_is_out_of_memory(
    tiny_model: Callable[..., Any], tokens: Tokens, ask: Ask
) -> None:
    subject = LocalSubject(Spy(tiny_model(), most=SMALLEST_CHUNK - 1), tokens)
    with pytest.raises(torch.OutOfMemoryError):
        subject.answer(ask(2000))


def test_little_free_memory_cuts_the_prompt_beforehand(
    tiny_model: Callable[..., Any], tokens: Tokens, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    free: list[int | None] = [1 << 20]
    monkeypatch.setattr("ropewalk.proof.subjects.calls.free_memory", lambda _: free[0])
    spy = Spy(tiny_model())
    LocalSubject(spy, tokens).answer(ask(2000))
    assert SMALLEST_CHUNK <= spy.calls[0][0] < 1000
    free[0] = None
    spy.calls.clear()
    LocalSubject(spy, tokens).answer(ask(2000))
    assert spy.calls[0][0] == 2000


class Scripted:
    """Goes on with a given answer behind a prompt, whatever it is fed there."""

    def __init__(
        self, prompt: Prompt, answer: Sequence[int], ends: list[int] | None = None
    ) -> None:
        self.script = [*prompt.token_ids, *answer]
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.config = SimpleNamespace(
            get_text_config=lambda: SimpleNamespace(hidden_size=8, intermediate_size=[8, 16])
        )
        self.generation_config = SimpleNamespace(eos_token_id=ends)
        self.calls = 0

    def forward(self, ids: torch.Tensor, past_key_values: Any = None) -> Any: ...

    def __call__(
        self, ids: torch.Tensor, *, past_key_values: Any, logits_to_keep: int, **_: Any
    ) -> Any:
        self.calls += 1
        cache = past_key_values or SimpleNamespace(length=0)
        cache.crop = lambda surplus: setattr(cache, "length", cache.length + surplus)
        cache.length += ids.shape[1]
        places = range(cache.length - logits_to_keep, cache.length)
        logits = torch.zeros(1, logits_to_keep, 1200)
        for row, place in enumerate(places):
            logits[0, row, self.script[place + 1]] = 20.0
        return SimpleNamespace(logits=logits, past_key_values=cache)


SAID = [
    (" {value}.", Outcome.HIT, "{value}"),
    (" {value}1", Outcome.MISS, " {value}1"),
    (" {other}", Outcome.WRONG, " {other}"),
    (" nothing", Outcome.MISS, None),
]


@pytest.mark.parametrize(("said", "outcome", "printed"), SAID)
def test_a_base_answer_by_what_is_said(
    said: str, outcome: Outcome, printed: str | None, tokens: Tokens, ask: Ask
) -> None:
    prompt = ask(400, distractors=1)
    words = {"value": prompt.value, "other": prompt.distractors[0]}
    ids = tokens.encode(said.format(**words) + " and so on and on it goes", special=False)
    answer = LocalSubject(Scripted(prompt, ids), tokens).answer(prompt)
    assert answer.outcome is outcome
    assert printed is None or answer.printed.startswith(printed.format(**words))


CHAT_SAID = [
    ("{value}", Outcome.HIT, "{value}", 1),
    ("{value} is it.", Outcome.HIT, "{value} is it.", None),
    ("{value} or {other}?", Outcome.MISS, "{value} or {other}?", None),
    ("It is {value}", Outcome.HIT, "It is {value}", None),
    ("{other}", Outcome.WRONG, "{other}", None),
]


@pytest.mark.parametrize(("said", "outcome", "printed", "calls"), CHAT_SAID)
@pytest.mark.parametrize("ends", [None, [7, 9]])
def test_a_chat_answer_is_read_to_its_end_whichever_token_ends_it(
    said: str,
    outcome: Outcome,
    printed: str,
    calls: int | None,
    ends: list[int] | None,
    tokens: Tokens,
    ask: Ask,
) -> None:
    prompt = ask(400, distractors=1)
    value_ids = tuple(tokens.encode(prompt.value, special=False))
    prompt = replace(prompt, value_ids=value_ids, budget=24)
    words = {"value": prompt.value, "other": prompt.distractors[0]}
    end = ends[-1] if ends else next(iter(tokens.end_ids))
    ids = [*tokens.encode(said.format(**words), special=False), end]
    ids += tokens.encode(f" {prompt.distractors[0]} and so on" * 3, special=False)
    model = Scripted(prompt, ids, ends)
    answer = LocalSubject(model, tokens, chat=True).answer(prompt)
    assert answer.outcome is outcome
    assert answer.printed.startswith(printed.format(**words))
    assert calls is None or model.calls == calls


def test_a_model_with_so_many_positions_takes_no_longer_prompt(
    tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    subject = LocalSubject(tiny_model(), tokens, position_limit=512)
    assert subject.fits(512) is None
    assert subject.fits(513) == "the model has 512 positions, the prompt needs 513"
    assert LocalSubject(tiny_model(), tokens).fits(1 << 30) is None


def test_the_schedule_is_set_for_the_length_before_the_model_is_asked(
    tiny_model: Callable[..., Any], tokens: Tokens, ask: Ask
) -> None:
    spy, prompt = Spy(tiny_model()), ask()
    told: list[tuple[int, int]] = []
    subject = LocalSubject(
        spy, tokens, set_length=lambda length: told.append((length, len(spy.calls)))
    )
    subject.answer(prompt)
    assert told == [(prompt.length, 0)]
