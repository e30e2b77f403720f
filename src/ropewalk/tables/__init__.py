"""Token embedding tables: built, resized, spread over ranks, and opened without their model.

To build: `module` is the layer, `resize` and `new_rows` change its length, `parallel` spreads its
rows.

To look: `open` finds the tables of a checkpoint (`roles` which tensor is which, `tie` whether two
are one) and reads only the rows that are asked for, as they are `stored` or `as_used`; `formats`
knows where a file keeps them, `vocabulary` which bytes a row stands for, `words` which rows a user
means. Then a file for each question: `search` (and `near`, for tensors) and `analogy` find nearest
rows, `clusters`, `projection` and `principal` say how all lie, `health` what is wrong with them,
`positions_table` how far a position table was trained, `compare` what two checkpoints share;
`score` holds a table to benchmarks, `export` writes it for other tools.
"""
