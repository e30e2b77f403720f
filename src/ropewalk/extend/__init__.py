"""A longer context: a schedule chosen by measurement, and a checkpoint that carries it.

`methods` makes schedules from a spec and a length, `fit` says whether a model can take one,
`score` and `choose` measure them on the model itself, `search` looks for divisors of its own, and
`checkpoint` writes what was chosen, whole or not at all (a GGUF through `ropewalk.dialects.gguf`).
`tune` trains briefly on long documents, and `story` tells it all on the embedded model.
"""
