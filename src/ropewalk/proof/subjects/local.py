"""A transformers model on this machine, asked one prompt at a time or behind a shared text.

`LocalSubject` scores the value teacher-forced in one pass over prompt and value: logits are
computed only where its tokens are predicted. What has to be decoded is decoded from the same
key-value cache, which is the model's own, cut back to where the model leaves the value. So this
works for every model, also for one whose state cannot be shared between prompts.

`SharingLocal` reads a shared text once, the path, and asks branches behind it: several in one pass
where the model takes a mask of its own, one by one where it does not. The path stays as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ropewalk.proof.cells import Answer, Prompt
from ropewalk.proof.subjects.branches import Branches, Read, can_stand_side_by_side, room
from ropewalk.proof.subjects.calls import (
    SMALLEST_CHUNK,
    Greedy,
    Judge,
    ModelCalls,
    TeacherForced,
    give_back,
    is_out_of_memory,
)

if TYPE_CHECKING:
    import torch

    from ropewalk.proof.reading import Leaf
    from ropewalk.proof.subjects.cache import InPlaceCache
    from ropewalk.proof.tokens import Tokens


class LocalSubject:
    """Asks a causal language model of transformers.

    `set_length(tokens)` is called before each prompt with its length, so that schedules which
    depend on it can be put in place. `position_limit` is the number of positions the model can
    take at all (the rows of a learned table), None when there is no such limit.
    """

    def __init__(
        self,
        model: Any,
        tokens: Tokens,
        *,
        chat: bool = False,
        set_length: Callable[[int], None] | None = None,
        position_limit: int | None = None,
        chunk: int | None = None,
    ) -> None:
        self._calls = ModelCalls(model, chunk)
        self._judge = Judge(tokens, tokens.end_ids | self._calls.end_ids, chat=chat)
        self._set_length = set_length or (lambda _: None)
        self._limit = position_limit

    def fits(self, length: int) -> str | None:
        """Why a prompt of `length` tokens cannot be asked at all, or None when it can."""
        return exceeded(self._limit, length)

    def answer(self, prompt: Prompt) -> Answer:
        """Score and, where the value is not what the model says, decode.

        Raises what the model raises, out of memory only when even small chunks do not fit.
        """
        import torch

        begun = time.perf_counter()
        self._set_length(prompt.length)
        with torch.inference_mode():
            logits, cache = self._read((*prompt.token_ids, *prompt.value_ids), prompt)
            forced = self._judge.teacher_forced(logits, prompt)
            greedy = None if self._judge.is_hit(forced) else self._decode(forced, cache)
        return self._judge.answer(forced, greedy, time.perf_counter() - begun)

    def _read(self, ids: tuple[int, ...], prompt: Prompt) -> tuple[torch.Tensor, Any]:
        """Logits (len(value) + 1, vocabulary) of the last tokens of `ids`; the cache."""
        import torch

        tensor = torch.tensor([ids], device=self._calls.device)
        keep = len(prompt.value_ids) + 1
        chunk: int | None = self._calls.chunk(len(ids))
        while chunk is not None:
            try:
                return self._forward(tensor, keep, chunk)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                failed = error.with_traceback(None)
            # Out here nothing holds what the failed pass had computed any more.
            chunk = self._calls.halve(chunk, len(ids))
        raise failed

    def _forward(self, ids: torch.Tensor, keep: int, chunk: int) -> tuple[torch.Tensor, Any]:
        total = ids.shape[1]
        cache: Any = None
        done = 0
        while total - done > max(chunk, keep):
            # The last call keeps at least `keep` tokens, so that all logits come from one call.
            step = min(chunk, total - done - keep)
            _, cache = self._calls.call(ids[:, done : done + step], cache, 1)
            done += step
        return self._calls.call(ids[:, done:], cache, keep)

    def _decode(self, forced: TeacherForced, cache: Any) -> Greedy:
        """What greedy decoding prints behind the prompt, up to the prompt's budget."""
        import torch

        greedy = self._judge.greedy(forced)
        cache = self._cut(forced, cache)
        for token in greedy.steps():
            step = torch.tensor([[token]], device=self._calls.device)
            logits, cache = self._calls.call(step, cache, 1)
            greedy.printed.append(int(logits[-1].argmax()))
        return greedy

    def _cut(self, forced: TeacherForced, cache: Any) -> Any:
        """The cache holding the prompt and what the model says of the value, no more."""
        if forced.surplus == 0:
            return cache
        try:
            cache.crop(-forced.surplus)
        except (RuntimeError, ValueError, AttributeError, NotImplementedError):
            # Sliding layers that have dropped tokens, and recurrent states, cannot go back:
            # read the prompt again.
            prompt = forced.prompt
            _, cache = self._read((*prompt.token_ids, *prompt.value_ids[: forced.right]), prompt)
        return cache


def exceeded(limit: int | None, length: int) -> str | None:
    """Why a model of `limit` positions cannot take a prompt of `length` tokens, or None."""
    if limit is not None and length > limit:
        return f"the model has {limit} positions, the prompt needs {length}"
    return None


BRANCH_ROOM = 1024
"""Tokens of branches that are asked in one pass, and that the cache keeps free for them."""

BEHIND = 1024
"""Tokens a pass that are read behind others. Such a pass needs a mask, and attention computes the
whole rectangle of it: the longer the pass, the more of it is hidden from every token."""


class SharingLocal:
    """Asks a causal language model of transformers, keeping the path in an `InPlaceCache`.

    `set_length` and `position_limit` are those of `LocalSubject`. `regime` names the schedule at
    a length; `side_by_side` says whether several branches go through in one pass, None: whenever
    the model's forward can. Raises ModelFileError for a model whose state cannot go back.
    """

    def __init__(
        self,
        model: Any,
        tokens: Tokens,
        *,
        chat: bool = False,
        set_length: Callable[[int], None] | None = None,
        position_limit: int | None = None,
        regime: Callable[[int], str] | None = None,
        chunk: int | None = None,
        side_by_side: bool | None = None,
    ) -> None:
        from ropewalk.proof.subjects.cache import InPlaceCache

        self._calls = ModelCalls(model, chunk)
        self._judge = Judge(tokens, tokens.end_ids | self._calls.end_ids, chat=chat)
        self._set_length = set_length or (lambda _: None)
        self._limit = position_limit
        self._regime = regime or (lambda _: "")
        self._cache: InPlaceCache = InPlaceCache.for_model(model, 0)
        able = can_stand_side_by_side(self._calls, self._cache)
        self._side_by_side = able if side_by_side is None else side_by_side and able
        self._room = BRANCH_ROOM
        # Position ids of the path, where gaps were left in it.
        self._places: list[int] | None = None

    def fits(self, length: int) -> str | None:
        """Why a prompt of `length` tokens cannot be asked at all, or None when it can."""
        return exceeded(self._limit, length)

    def regime(self, length: int) -> str:
        """The schedule that prompts of this length are rotated by."""
        return self._regime(length)

    def start(self, capacity: int) -> None:
        """Forget the path; make room for prompts of `capacity` tokens and branches behind them."""
        import torch

        self._set_length(capacity)
        self._places = None
        with torch.inference_mode():
            self._cache.crop_to(0)
            self._cache.reserve(capacity + self._room)

    def read(self, ids: Sequence[int]) -> None:
        """Append ids to the path, in chunks; a chunk that does not fit memory is halved.

        Raises what the model raises, out of memory only when even small chunks do not fit.
        """
        import torch

        before = self._cache.length
        with torch.inference_mode():
            try:
                if ids:
                    self._append(self._tensor(ids))
            except BaseException:
                self._cache.crop_to(before)
                raise

    def read_at(self, ids: Sequence[int], first: int) -> None:
        """Append ids to a path with gaps, at position ids from `first` on.

        Only for a model that `side_by_side` is true of. Raises what the model raises, out of memory
        only when even small chunks do not fit; what was read before is kept.
        """
        import torch

        places = self._places = self._places if self._places is not None else []
        done, chunk = 0, min(BEHIND, self._calls.chunk(self._cache.length + len(ids)))
        while done < len(ids):
            part = ids[done : done + chunk]
            try:
                with torch.inference_mode():
                    self._branches().read(part, first + done)
            except (RuntimeError, MemoryError) as error:
                smaller = self._calls.halve(chunk, len(part)) if is_out_of_memory(error) else None
                if smaller is None:
                    raise
                chunk = smaller
                continue
            places.extend(range(first + done, first + done + len(part)))
            done += len(part)

    def needles(self, needles: Sequence[tuple[Sequence[int], int]]) -> list[Read]:
        """Read needles (ids, first position id) in a gap at the path's end; the path stays."""
        import torch

        found: list[Read] = []
        with torch.inference_mode():
            for group in self._fitting(needles):
                found += self._branches().needles(group)
        return found

    def _fitting(
        self, needles: Sequence[tuple[Sequence[int], int]]
    ) -> Iterator[list[tuple[Sequence[int], int]]]:
        """Needles in groups that the room kept free in the cache holds."""
        group: list[tuple[Sequence[int], int]] = []
        taken = 0
        for ids, first in needles:
            if group and taken + len(ids) > self._room:
                yield group
                group, taken = [], 0
            group.append((ids, first))
            taken += len(ids)
        if group:
            yield group

    @property
    def side_by_side(self) -> bool:
        """Whether branches go through in one pass, and positions may have gaps."""
        return self._side_by_side

    def _branches(self) -> Branches:
        return Branches(self._calls, self._cache, self._places)

    def crop(self, tokens: int) -> None:
        """Forget the last `tokens` tokens of the path."""
        self._cache.crop_to(self._cache.length - tokens)

    def together(self, leaves: Sequence[Leaf]) -> int:
        """As many leaves as fit the room that is kept free, one pass for all of them."""
        if not self._side_by_side:
            return 1
        taken = total = 0
        for leaf in leaves:
            total += room(leaf)
            if total > self._room:
                break
            taken += 1
        return max(1, taken)

    def ask(self, leaves: Sequence[Leaf]) -> list[Answer]:
        """Score and decode branches behind the path; seconds are shared out by their tokens.

        Where they do not fit memory together, they are asked in halves.
        """
        import torch

        begun = time.perf_counter()
        with torch.inference_mode():
            forced = [each for group in self._groups(leaves) for each in self._ask(group)]
        seconds = time.perf_counter() - begun
        total = sum(len(leaf.ids) for leaf in leaves)
        return [
            self._judge.answer(each, greedy, seconds * len(leaf.ids) / total)
            for leaf, (each, greedy) in zip(leaves, forced, strict=True)
        ]

    def _groups(self, leaves: Sequence[Leaf]) -> Iterator[Sequence[Leaf]]:
        done = 0
        while done < len(leaves):
            count = self.together(leaves[done:])
            yield leaves[done : done + count]
            done += count

    def _ask(self, leaves: Sequence[Leaf]) -> list[tuple[TeacherForced, Greedy | None]]:
        if len(leaves) == 1 and self._places is None:
            return [self._alone(leaves[0])]
        try:
            return self._branches().ask(leaves, self._judge)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or len(leaves) == 1:
                raise
        give_back()
        middle = len(leaves) // 2
        self._room = max(SMALLEST_CHUNK, self._room // 2)
        return self._ask(leaves[:middle]) + self._ask(leaves[middle:])

    def _alone(self, leaf: Leaf) -> tuple[TeacherForced, Greedy | None]:
        """One branch, however long: appended, decoded from, and cut off again."""
        prompt, before = leaf.prompt, self._cache.length
        self._cache.reserve(before + room(leaf))
        keep = len(prompt.value_ids) + 1
        try:
            logits = self._append(self._tensor((*leaf.ids, *prompt.value_ids)), keep)
            forced = self._judge.teacher_forced(logits, prompt)
            if self._judge.is_hit(forced):
                return forced, None
            greedy = self._judge.greedy(forced)
            self._cache.crop_to(self._cache.length - forced.surplus)
            for token in greedy.steps():
                logits, _ = self._calls.call(self._tensor((token,)), self._cache, 1)
                greedy.printed.append(int(logits[-1].argmax()))
            return forced, greedy
        finally:
            self._cache.crop_to(before)

    def _append(self, ids: torch.Tensor, keep: int = 1) -> torch.Tensor:
        """Read ids (1, length) behind what is there; the logits of the last `keep` places.

        The last call has at least `keep` tokens, so that all logits come from one call.
        """
        total = ids.shape[1]
        done, start = 0, self._cache.length
        chunk: int | None = self._calls.chunk(start + total)
        while chunk is not None:
            left, most = total - done, min(chunk, BEHIND) if start + done else chunk
            step = left if left <= max(most, keep) else min(most, left - keep)
            try:
                kept = keep if step == left else 1
                logits, _ = self._calls.call(ids[:, done : done + step], self._cache, kept)
                done += step
                if done == total:
                    return logits
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                failed = error.with_traceback(None)
            self._cache.crop_to(start + done)
            chunk = self._calls.halve(chunk, step)
        raise failed

    def _tensor(self, ids: Sequence[int]) -> torch.Tensor:
        import torch

        return torch.tensor([ids], device=self._calls.device)
