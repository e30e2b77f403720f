"""A longer context: a schedule chosen by measurement, and a checkpoint that carries it.

`session` does all of it. `methods` makes schedules from a spec and a length, `fit` says whether a
model can take one, `score` and `choose` measure them on the model itself (`skip` stands in for long
prompts, `neighbour` reads a long text without any schedule), and `search` looks for divisors of its
own. `checkpoint` writes what was chosen, whole or not at all (a GGUF through
`ropewalk.dialects.gguf`), with its `card` and how to `serve` it. `tune` trains briefly on long
documents, and `story` tells it all on the embedded model.
"""
