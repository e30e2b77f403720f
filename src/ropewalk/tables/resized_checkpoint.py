"""A checkpoint with more or fewer rows: a new folder, whole or not there; the old one is only read.

New tokens go into the tokenizer's files, rows into the input table and what hangs on it (a head of
its own, an output bias), the new number of rows into config.json. Shards that hold none of these
are linked, or copied where they cannot be. Before the folder takes its name it is opened again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.dialects.hf import load_json
from ropewalk.dialects.hf.family import TEXT_PARTS
from ropewalk.errors import ModelFileError, StoreError, UsageError
from ropewalk.files import folder_beside
from ropewalk.kernels.arrays import as_tensor
from ropewalk.short import short
from ropewalk.tables.export.rows import check_target
from ropewalk.tables.formats.gguf import GgufCheckpoint
from ropewalk.tables.formats.safetensors import SafetensorsCheckpoint
from ropewalk.tables.open import EmbeddingTable, ModelTables, open_tables
from ropewalk.tables.roles import output_biases
from ropewalk.tables.stored import PLAIN
from ropewalk.tables.vocabulary_files import NewTokens
from ropewalk.tables.words import package

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.resize import NewRows, Resized

RULES = ("mean", "covariance", "pieces")
"""How new rows may be made, by name."""

_BY_VOCABULARY = re.compile(r"embed|head|logits|vocab|wte|shared", re.IGNORECASE)
_OTHER_WEIGHTS = frozenset({".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"})
"""Weights in other formats, which would keep the old rows beside the new ones."""
_CONFIG, _TOKENIZER = "config.json", "tokenizer.json"
_INDEX = ".safetensors.index.json"


@short
@dataclass(frozen=True, slots=True)
class ResizeOptions:
    """What is wanted. `add` are new tokens, `special` whether the tokenizer marks them so.

    `rows` is how many rows in all, None for as many as tokens need and at least those that there
    are; `multiple` rounds up. `rule` is one of RULES; `share` of the covariance and `seed` belong
    to "covariance". `drop` lets rows go that hold values and belong to no token. `tensor`
    names the input table where several tensors fit.
    Raises UsageError for a rule that is none, and for empty or repeated tokens.
    """

    add: tuple[str, ...] = ()
    special: bool = False
    rows: int | None = None
    multiple: int = 1
    rule: str = "mean"
    share: float = 0.01
    seed: int = 0
    drop: bool = False
    tensor: str | None = None

    def __post_init__(self) -> None:
        if self.rule == "zeros":
            raise UsageError(
                "a row of zeros has the logit 0 in every context, and is the likeliest token "
                f"wherever all others are negative; choose {', '.join(RULES)}"
            )
        if self.rule not in RULES:
            raise UsageError(f"the rule for new rows is {self.rule!r}; choose {', '.join(RULES)}")
        if any(not token for token in self.add):
            raise UsageError("a new token is empty; give its text")
        again = next((t for i, t in enumerate(self.add) if t in self.add[:i]), None)
        if again is not None:
            raise UsageError(f"the token {again!r} is given twice; give each once")


@short
@dataclass(frozen=True, slots=True)
class ResizedCheckpoint:
    """What was written to `path`. `resized` names parameters as the checkpoint does.

    `added` are new tokens by id, `tie` says whether the head is the input table, `left_out` names
    what stayed behind.
    """

    path: Path
    model: str
    rows_before: int
    rows: int
    resized: Resized
    added: tuple[tuple[int, str], ...]
    tie: str
    left_out: tuple[str, ...]


def resize_checkpoint(name: str | Path, out: Path, options: ResizeOptions) -> ResizedCheckpoint:
    """Write the checkpoint `name` (a folder, a known name, a hub id) to the new folder `out`.

    Raises UsageError for what cannot be done as asked: a GGUF, packed tables, fewer rows than the
    tokenizer has tokens, tokens that are there already, a folder with files in it; ModelFileError
    for a head that is missing, StoreError when the folder cannot be written or does not read back.
    Nothing is left of it then.
    """
    check_target(out, force=False, folder=True)
    tables = open_tables(name)
    folder, checkpoint = _source(tables)
    table = _input_table(tables, options.tensor)
    _check_others(checkpoint, tables, table)
    tokenizer = NewTokens(folder, tables.vocabulary, options.add, special=options.special)
    resized, changed = _resized(tables, table, tokenizer, options)
    rows = len(changed[table.name])
    texts = {_CONFIG: _with_rows(load_json(folder / _CONFIG), rows), **tokenizer.files()}
    left_out: list[str] = []
    with folder_beside(out) as made:
        for entry in sorted(folder.iterdir()):
            target = made / entry.name
            if entry.name.startswith("."):
                continue
            if not entry.is_file() or entry.suffix in _OTHER_WEIGHTS:
                left_out.append(entry.name)
            elif entry.name in texts:
                _write_json(target, texts[entry.name])
            elif entry.name.endswith(_INDEX):
                _write_json(target, _with_size(load_json(entry), changed, table.rows))
            elif entry.suffix == ".safetensors":
                _write_shard(entry, target, checkpoint, changed)
            else:
                shutil.copyfile(entry, target)
        _read_back(made, changed, rows, tokenizer.added)
    return ResizedCheckpoint(
        out, tables.title, table.rows, rows, resized, tokenizer.added, tables.tie.sentence,
        tuple(left_out),
    )  # fmt: skip


def _input_table(tables: ModelTables, tensor: str | None) -> EmbeddingTable:
    """The table to resize. Raises UsageError for a tensor that cannot be the input table."""
    if tensor is not None:
        fitting = [each.name for each in tables.candidates("input")]
        if tensor not in fitting:
            raise UsageError(
                f"{tables.title} has no input table {tensor!r:.80}; choose one of "
                f"{', '.join(fitting[:12])}"
            )
    return tables.table("input", tensor)


def _source(tables: ModelTables) -> tuple[Path, SafetensorsCheckpoint]:
    """The folder, and its weights. Raises UsageError where rows cannot be written."""
    checkpoint = tables.checkpoint
    if isinstance(checkpoint, GgufCheckpoint):
        raise UsageError(
            f"{checkpoint.path} is a GGUF, whose rows are quantised in blocks and whose vocabulary "
            "lies in its header; resize the checkpoint that it was made from, and convert that"
        )
    if not isinstance(checkpoint, SafetensorsCheckpoint) or tables.facts is None:
        raise UsageError(
            f"{checkpoint.path} cannot be resized: that takes a folder with config.json and "
            "weights in safetensors (save_pretrained of transformers writes one)"
        )
    return Path(tables.facts.where).parent, checkpoint


def _check_others(
    checkpoint: SafetensorsCheckpoint, tables: ModelTables, table: EmbeddingTable
) -> None:
    """Refuse a checkpoint with further tensors that go by the vocabulary, and packed tables."""
    if table.storage not in PLAIN:
        raise UsageError(
            f"{table.name} is stored as {table.storage}, and rows are made of plain floats; resize "
            "the original checkpoint, and quantise that again"
        )
    known = {table.name, tables.tie.head, *output_biases(checkpoint, table.rows)}
    others = [
        name
        for name in checkpoint.names()
        if name not in known
        and _BY_VOCABULARY.search(name)
        and table.rows in checkpoint.shape(name)
    ]
    if others:
        raise UsageError(
            f"{tables.title} has more tensors with {table.rows:,} rows: {', '.join(others[:4])}; "
            "what new tokens need there is not known here, and with the old rows it would not load"
        )


def _resized(
    tables: ModelTables, table: EmbeddingTable, tokenizer: NewTokens, options: ResizeOptions
) -> tuple[Resized, dict[str, Tensor]]:
    """What was done, and the new values of each changed tensor by its name."""
    from torch import nn

    from ropewalk.tables.resize import resize

    owned = table.rows if tokenizer.tokens is None else min(tokenizer.tokens, table.rows)
    tokens = (tokenizer.tokens or table.rows) + len(tokenizer.added)
    if options.rows is not None and options.rows < tokens:
        raise UsageError(
            f"{options.rows:,} rows were asked for, and the tokenizer has {tokens:,} tokens"
            f"{', the new ones among them' if tokenizer.added else ''}; ask for {tokens:,} or more"
        )
    # Without a tokenizer every row may be a token's, and so are those that are asked for.
    if tokenizer.tokens is None and options.rows is not None:
        tokens = options.rows
    head, names = _head(tables, table)
    weight = nn.Parameter(table.whole(), requires_grad=False)
    module = nn.Embedding(table.rows, table.width, _weight=weight)
    module.weight = weight
    if head is not None and tables.tie.head in (None, table.name):
        head.weight = weight
    done = resize(
        module,
        tokens,
        old_tokens=owned,
        rows=options.rows,
        multiple=options.multiple,
        new_rows=_rule(tokenizer, owned, tokens, options),
        dropping=range(tokens, table.rows) if options.drop else range(0),
        head=head,
    )
    if (done.tables[0].rows_after, tokens) == (table.rows, owned):
        raise UsageError(
            f"{tables.title} has {table.rows:,} rows for {owned:,} tokens, and stays as it is; "
            "give new tokens (--add, --tokens), more rows (--rows), or a --multiple"
        )
    changed = {table.name: module.weight}
    if head is not None:
        changed |= {n: head.weight for n in names if n == tables.tie.head}
        changed |= {n: head.bias for n in names if n != tables.tie.head}
    called = {"table": table.name, "head": tables.tie.head or table.name, "head.bias": names[-1:]}
    reports = [replace(t, name="".join(called[t.name])) for t in done.tables]
    return replace(done, tables=tuple(reports)), {n: p.detach() for n, p in changed.items()}


def _head(tables: ModelTables, table: EmbeddingTable) -> tuple[Any, list[str]]:
    """A layer with the head's values and its bias, and their names; None where both are tied.

    Raises UsageError for biases that are not one, ModelFileError for a head that is missing.
    """
    import torch
    from torch import nn

    name, checkpoint = tables.tie.head, tables.checkpoint
    if tables.tie.missing:
        raise ModelFileError(f"{checkpoint.path}: {tables.tie.sentence}")
    own = name if name != table.name else None
    biases = output_biases(checkpoint, table.rows)
    if own is None and not biases:
        return None, []
    head = nn.Linear(1, 1, bias=False)
    if own is not None:
        head.weight = nn.Parameter(tables.table("output", own).whole(), requires_grad=False)
    if biases:
        values = [as_tensor(checkpoint.matrix(bias).whole()[0]) for bias in biases]
        if any(not torch.equal(values[0], other) for other in values[1:]):
            raise UsageError(f"{', '.join(biases)} hold different numbers, and one head has one")
        head.bias = nn.Parameter(values[0], requires_grad=False)
    return head, [*([own] if own is not None else []), *biases]


def _rule(tokenizer: NewTokens, owned: int, tokens: int, options: ResizeOptions) -> NewRows:
    from ropewalk.tables.resize import FromPieces, Mean, MeanCovariance

    if options.rule == "mean":
        return Mean()
    if options.rule == "covariance":
        return MeanCovariance(options.share, options.seed)
    pieces = tokenizer.pieces(owned)
    nameless = next((row for row in range(owned, tokens) if row not in pieces), None)
    if nameless is not None:
        raise UsageError(
            f"row {nameless} has no token in tokenizer.json that could be cut into pieces; choose "
            "mean or covariance"
        )
    return FromPieces(pieces)


def _with_rows(config: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """The configuration with this vocab_size, in its text part too."""
    part = next((key for key in TEXT_PARTS if isinstance(config.get(key), dict)), None)
    if part is None:
        return {**config, "vocab_size": rows}
    own = {"vocab_size": rows} if "vocab_size" in config else {}
    return {**config, **own, part: _with_rows(config[part], rows)}


def _with_size(
    index: Mapping[str, Any], changed: Mapping[str, Tensor], before: int
) -> dict[str, Any]:
    """The index with the bytes of all tensors as they are now."""
    about = index.get("metadata")
    if not isinstance(about, dict) or not isinstance(about.get("total_size"), int):
        return dict(index)
    more = sum(t.nbytes - t.nbytes // len(t) * before for t in changed.values())
    return {**index, "metadata": {**about, "total_size": about["total_size"] + more}}


def _write_shard(
    source: Path, target: Path, checkpoint: SafetensorsCheckpoint, changed: Mapping[str, Tensor]
) -> None:
    """One file of weights: with the changed tensors that it holds, or the same file again."""
    own = {n: t for n, t in changed.items() if checkpoint.homes[n].name == source.name}
    if own:
        from safetensors import safe_open
        from safetensors.torch import save_file

        with safe_open(source, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            save_file(tensors | own, target, file.metadata())
        # The library makes files that their owner alone may read.
        shutil.copymode(source, target)
        return
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_back(
    folder: Path, changed: Mapping[str, Tensor], rows: int, added: Sequence[tuple[int, str]]
) -> None:
    """Raise StoreError where the folder does not say what was meant."""
    import torch

    again = open_tables(folder)
    for name, values in changed.items():
        held = as_tensor(again.checkpoint.matrix(name).whole()).reshape(values.shape)
        if not torch.equal(held.view(torch.uint8), values.contiguous().view(torch.uint8)):
            raise StoreError(f"{name} does not read back as it was written; nothing was kept")
    if again.facts is None or again.facts.vocab_size != rows:
        raise StoreError("config.json does not read back with the new rows; nothing was kept")
    if added:
        tokenizer = package("tokenizers").Tokenizer.from_file(str(folder / _TOKENIZER))
        for row, token in added:
            if row not in tokenizer.encode(token, add_special_tokens=False).ids:
                raise StoreError(
                    f"the tokenizer does not make {token!r} of its own text; nothing was kept. A "
                    "longer token may hold it: leave one of them out"
                )
