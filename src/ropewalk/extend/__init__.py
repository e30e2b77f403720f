"""A longer context: a schedule chosen by measurement, and a checkpoint that carries it.

`methods` makes schedules from a spec and a length, `fit` says whether a model can take one,
`score` and `choose` measure them on the model itself, `search` looks for divisors of its own, and
`checkpoint` and `gguf_out` write what was chosen, whole or not at all.
"""
