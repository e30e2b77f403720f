"""How much of document A leaks into what a model says of document B behind it in the same row.

Two documents stand in one row and state the same fact differently; then B's is asked for. Read in
four ways: with nothing between them, with a boundary token, with positions that start anew at B
as well, and with a mask that keeps B from seeing A as well. B alone is what each is held against:
only the mask gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ropewalk.errors import UsageError
from ropewalk.models.load import table_rows
from ropewalk.packing.layout import Counting, Layout
from ropewalk.packing.table_rows import check_rows
from ropewalk.proof.tokens import Tokens
from ropewalk.short import short

if TYPE_CHECKING:
    from torch import Tensor

WAYS = ("nothing between", "boundary token", "positions reset", "mask")
"""How two documents are joined; from the second on each keeps what the one before it has."""


@short
@dataclass(frozen=True, slots=True)
class DocumentPair:
    """Two documents, and at the end of `b` the beginning of an answer about it.

    `value_a` and `value_b` are what each document says; None where the texts are the user's own
    and nothing is known of them.
    """

    a: str
    b: str
    value_a: str | None = None
    value_b: str | None = None


@short
@dataclass(frozen=True, slots=True)
class JoinReading:
    """B read in one way, averaged over the pairs.

    `value_a`, `value_b`: natural logarithm of the probability of each document's value, where B's
    is asked for. `misled`: pairs in which A's is the likelier. `loss`: nats per token of B. `mean`
    and `most`: by how much B's logits differ from those of B alone, over all tokens of B and of
    the vocabulary.
    """

    way: str
    value_a: float | None
    value_b: float | None
    misled: int | None
    loss: float
    mean: float
    most: float


@short
@dataclass(frozen=True, slots=True)
class JoinLeak:
    """What was measured: `alone` first, then each way. `tokens`: B's, in all pairs."""

    pairs: tuple[DocumentPair, ...]
    tokens: int
    boundary: str
    alone: JoinReading
    readings: tuple[JoinReading, ...]


_SUBJECTS = (
    ("The inn at {place} has a {value} door.", "The door of the inn at {place} is", 0),
    ("The flag of {place} is {value}.", "The colour of the flag of {place} is", 0),
    (
        "In {place} the miller keeps a {value}.",
        "The animal that the miller of {place} keeps is a",
        1,
    ),
    ("The bell of {place} is made of {value}.", "The bell of {place} is made of", 2),
    ("The market of {place} is held on {value}.", "The market of {place} is held on", 3),
)
"""A fact, the beginning of an answer, and which values fit."""

_VALUES = (
    ("red", "green", "blue", "white", "black", "yellow"),
    ("dog", "cat", "horse", "goat", "pig", "cow"),
    ("iron", "gold", "silver", "glass", "stone", "wood"),
    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
)
_AROUND = (
    "The road there is steep and follows the river.",
    "Most people come in the summer, when the days are long.",
    "It was written down by the clerk of the town.",
    "Nobody remembers who built the first house.",
    "The winter was mild and the harvest good.",
)
_EMPTY = "one of the two documents is empty; give text to both"
_PLACES = "Velmar Dorhal Kensel Torbal Galwen Morfen Halkor Norsel Pelgar Lanver".split()


def draw_pairs(number: int, seed: int) -> tuple[DocumentPair, ...]:
    """Pairs of small documents that state one fact differently; the same for the same seed.

    Raises UsageError for a number below 1.
    """
    if number < 1:
        raise UsageError(f"{number} pairs were asked for; at least 1 is needed")
    random = Random(f"join/{seed}")
    pairs = []
    for at in range(number):
        fact, opening, kind = _SUBJECTS[at % len(_SUBJECTS)]
        place = random.choice(_PLACES)
        value_a, value_b = random.sample(_VALUES[kind], 2)
        around = random.sample(_AROUND, 4)
        a = " ".join((around[0], fact.format(place=place, value=value_a), around[1]))
        b = " ".join((around[2], fact.format(place=place, value=value_b), around[3]))
        pairs.append(DocumentPair(a, f"{b} {opening.format(place=place)}", value_a, value_b))
    return tuple(pairs)


def join_of(
    name: str,
    pairs: Sequence[DocumentPair],
    *,
    device: str = "auto",
    dtype: str = "auto",
    say: Callable[[str], None] = lambda _: None,
) -> tuple[str, JoinLeak]:
    """Load a model and measure: its title, and what was measured; `say` is called with each phase.

    Raises as `ropewalk.models.load.load` and `measure_join`, and UsageError for rows longer than
    the model's claimed length, where what is measured would no longer be the joining alone.
    """
    if not all(pair.a and pair.b for pair in pairs):
        raise UsageError(_EMPTY)
    from ropewalk.models.load import check_device, load
    from ropewalk.models.resolve import read_spec, resolve
    from ropewalk.models.rotary_tables import install

    files = resolve(name)
    spec = read_spec(files)
    chosen, kind = check_device(device, dtype, files)
    loaded = load(files, device=chosen, dtype=kind, say=say)
    say("reading the documents, together and alone")
    install(loaded.model, spec, None)
    limit = spec.claimed.tokens
    return files.title, measure_join(loaded.model, loaded.tokenizer, pairs, limit=limit)


def measure_join(
    model: Any, tokenizer: Any, pairs: Sequence[DocumentPair], *, limit: int | None = None
) -> JoinLeak:
    """Read every pair in every way. `model` is a causal model of transformers.

    Raises UsageError for no pair, a document without tokens, rows of more than `limit` tokens,
    values that begin alike, and a tokenizer without a token to put between documents; RowError
    for a token that the table has no row for.
    """
    boundary, opening = _boundary(tokenizer), list(Tokens(tokenizer).opening)
    if not pairs:
        raise UsageError("there is no pair of documents to join")
    _check_rows(table_rows(model), tokenizer, pairs, [*opening, boundary])
    found: dict[str, list[_One]] = {way: [] for way in ("B alone", *WAYS)}
    tokens = 0
    for pair in pairs:
        rows = _Rows(model, tokenizer, pair, boundary, opening)
        if limit is not None and rows.longest > limit:
            raise UsageError(
                f"the two documents, {len(rows.a)} and {len(rows.b)} tokens, make a row of "
                f"{rows.longest}, and this model takes {limit}; give shorter ones"
            )
        tokens += len(rows.b)
        for way, ones in found.items():
            ones.append(rows.read(way))
    alone, *readings = (_averaged(way, ones) for way, ones in found.items())
    shown = str(tokenizer.convert_ids_to_tokens([boundary])[0])
    return JoinLeak(tuple(pairs), tokens, shown, alone, tuple(readings))


@dataclass(frozen=True, slots=True)
class _One:
    """One pair read in one way."""

    values: tuple[float, float] | None
    loss: float
    mean: float
    most: float


class _Rows:
    """The rows of one pair, each way."""

    def __init__(
        self, model: Any, tokenizer: Any, pair: DocumentPair, boundary: int, opening: list[int]
    ) -> None:
        self._model, self._opening, self._boundary = model, opening, boundary
        self.a, self.b = (_ids(tokenizer, text) for text in (pair.a, pair.b))
        self._values: tuple[list[int], list[int]] | None = None
        if pair.value_a is not None and pair.value_b is not None:
            self._values = (
                _continued(tokenizer, pair.b, self.b, pair.value_a),
                _continued(tokenizer, pair.b, self.b, pair.value_b),
            )
            if self._values[0][0] == self._values[1][0]:
                raise UsageError(
                    f"the values {pair.value_a!r} and {pair.value_b!r} begin with the same token "
                    "and could not be told apart"
                )
        self._alone: Tensor | None = None

    @property
    def longest(self) -> int:
        """Tokens of the longest row: both documents, what stands before each, and a value."""
        value = max(map(len, self._values)) - 1 if self._values is not None else 0
        return 2 * len(self._opening) + len(self.a) + 1 + len(self.b) + value

    def read(self, way: str) -> _One:
        """B in this way, beside the way that was read first: B alone."""
        import torch

        logits = self._logits(way, [])
        if self._alone is None:
            self._alone = logits
        change = (logits - self._alone).abs()
        values = None
        if self._values is not None:
            first, second = (self._log_probability(way, logits, ids) for ids in self._values)
            values = (first, second)
        loss = 0.0
        if len(self.b) > 1:
            targets = torch.tensor(self.b[1:], device=logits.device)
            loss = float(torch.nn.functional.cross_entropy(logits[:-1], targets))
        return _One(values, loss, float(change.mean()), float(change.max()))

    def _log_probability(self, way: str, logits: Tensor, value: list[int]) -> float:
        """Of a value of several tokens, each read behind the ones before it."""
        last = logits[-1:]
        if len(value) > 1:
            last = self._logits(way, value[:-1])[len(self.b) - 1 :]
        chances = last.double().log_softmax(-1)
        return sum(float(chances[place, token]) for place, token in enumerate(value))

    def _logits(self, way: str, behind: list[int]) -> Tensor:
        """Logits (tokens of B and `behind`, vocabulary) in float32."""
        import torch

        b = [*self.b, *behind]
        if way == "B alone":
            parts = [[*self._opening, *b]]
        elif way == "nothing between":
            parts = [[*self._opening, *self.a], b]
        else:
            parts = [[*self._opening, *self.a, self._boundary], [*self._opening, *b]]
        layout = Layout.of([len(part) for part in parts])
        counting: Counting = "reset" if way in ("positions reset", "mask") else "running"
        whole = Layout.of([layout.length])
        # Given even where it hides nothing: without a mask transformers makes one of its own out
        # of positions that start anew.
        mask = (layout if way == "mask" else whole).mask()
        device = self._model.device
        with torch.inference_mode():
            logits: Tensor = self._model(
                torch.tensor([[token for part in parts for token in part]], device=device),
                attention_mask=_mask(self._model, mask.to(device)),
                position_ids=layout.position_ids(counting)[None].to(device),
                use_cache=False,
            ).logits[0]
        return logits[-len(b) :].float()


def _mask(model: Any, seen: Tensor) -> Tensor:
    """(1, 1, query, key), in the words of the model's attention: added, or true and false."""
    import torch

    if model.config._attn_implementation != "eager":
        return seen[None, None]
    added = torch.zeros(seen.shape, dtype=model.dtype, device=seen.device)
    return added.masked_fill(~seen, torch.finfo(model.dtype).min)[None, None]


def _averaged(way: str, ones: list[_One]) -> JoinReading:
    values = [one.values for one in ones if one.values is not None]
    loss, mean = fmean(one.loss for one in ones), fmean(one.mean for one in ones)
    most = max(one.most for one in ones)
    if not values:
        return JoinReading(way, None, None, None, loss, mean, most)
    value_a, value_b = (fmean(value[at] for value in values) for at in range(2))
    misled = sum(a > b for a, b in values)
    return JoinReading(way, value_a, value_b, misled, loss, mean, most)


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not ids:
        raise UsageError(_EMPTY)
    return ids


def _continued(tokenizer: Any, text: str, ids: list[int], value: str) -> list[int]:
    """The tokens of a value behind a text."""
    whole = _ids(tokenizer, f"{text} {value}")
    if whole[: len(ids)] != ids or len(whole) == len(ids):
        raise UsageError(
            f"the value {value!r} is no tokens of its own behind the text; end the text at a word"
        )
    return whole[len(ids) :]


def _check_rows(
    rows: int, tokenizer: Any, pairs: Sequence[DocumentPair], around: list[int]
) -> None:
    """Raise RowError for a token that the table has no row for, of a document or around one."""
    spell = tokenizer.convert_ids_to_tokens
    check_rows(around, rows, spell, "what stands around a document")
    for number, pair in enumerate(pairs, 1):
        for name, text in (("A", pair.a), ("B", pair.b)):
            where = f"document {name} of pair {number}"
            check_rows(_ids(tokenizer, text), rows, spell, where)


def _boundary(tokenizer: Any) -> int:
    for token in (tokenizer.eos_token_id, tokenizer.bos_token_id):
        if token is not None:
            return int(token)
    raise UsageError("the tokenizer has neither EOS nor BOS to put between documents")
