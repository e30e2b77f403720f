"""What a spec says of positions beside its layers' encoding: second rotations, dual chunks."""

from __future__ import annotations

from collections.abc import Iterator

from ropewalk.rope.spec import Finding, LayerGroup, PositionSpec, RotarySpec, SecondRotation


def beside(spec: PositionSpec) -> Iterator[Finding]:
    """All of it, each kind once."""
    yield from _second(spec)
    chunk = spec.dual_chunk
    if chunk is not None:
        sizes = f"chunk_size {chunk.chunk_size}, local_size {chunk.local_size}"
        yield Finding(
            "dual-chunk-attention",
            "warning",
            f"dual chunk attention ({sizes}): beyond {chunk.original or 'the original length'} "
            "tokens distances are kept within what was trained, chunk by chunk; transformers, "
            "llama.cpp and MLX read nothing of it.",
            "Serve lengths beyond the original one with vLLM's dual chunk attention.",
        )


def _second(spec: PositionSpec) -> Iterator[Finding]:
    acting = [each for each in spec.second if each.part != "draft layers"]
    if acting:
        texts = "; ".join(dict.fromkeys(second_words(each, _main(spec, each)) for each in acting))
        yield Finding(
            "second-rotation",
            "note",
            f"{texts[0].upper()}{texts[1:]}.",
            "Ask of an engine that it rotates this too, by these numbers and in this layout.",
        )
    for each in spec.second:
        if each.part == "draft layers":
            text = second_words(each, None)
            yield Finding(
                "draft-layers",
                "note",
                f"{text[0].upper()}{text[1:]}.",
                "Count them to no layers of the model: engines that do not draft leave them out.",
            )


def _main(spec: PositionSpec, second: SecondRotation) -> RotarySpec | None:
    """The encoding of the layers that a second rotation goes with."""
    for group in spec.groups:
        if isinstance(group.encoding, RotarySpec) and _shares(group, second):
            return group.encoding
    return None


def _shares(group: LayerGroup, second: SecondRotation) -> bool:
    return set(second.layers) <= set(group.layers)


def second_words(second: SecondRotation, main: RotarySpec | None) -> str:
    """A second rotation in a sentence, with its keys."""
    keys = f" ({', '.join(second.keys)})" if second.keys else ""
    how = _how(second, main)
    match second.part:
        case "indexer":
            own = f"an indexer of {second.heads} heads" if second.heads else "an indexer"
            kept = "" if second.keeps is None else f", {second.keeps} of them,"
            return f"{own} chooses which keys each query sees{kept} and {how}{keys}"
        case "compressor":
            return f"a compressor makes one key of {second.rate} tokens and {how}{keys}"
        case "draft layers":
            count = len(second.layers)
            which = f"layers {second.layers[0]} to {second.layers[-1]}" if count else "layers"
            return f"{which} behind the model's own predict further tokens; each {how}{keys}"
        case "depth decoder":
            claimed = second.claimed.tokens if second.claimed else None
            length = "" if claimed is None else f" of {claimed} tokens"
            return f"a depth decoder{length} within each step {how}{keys}"


def _how(second: SecondRotation, main: RotarySpec | None) -> str:
    rotary = second.rotary
    if rotary is None:
        return f"is left open: {second.reason}" if "not" in second.reason else "rotates nothing"
    last = "last" if rotary.placement == "last" else "first"
    words = (
        f"rotates the {last} {rotary.rotary_dim} of {rotary.head_dim} channels of a head in "
        f"{rotary.layout} layout at base {rotary.rope_theta:,.10g}"
    )
    if main is not None and main.layout != rotary.layout:
        words += f", where the attention has the {main.layout} one"
    return words
