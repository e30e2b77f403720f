"""Token embedding tables: built, resized, and opened without their model.

To build: `module` is the layer, `resize` changes its length. (Rows spread over several devices are
torch's: `torch.distributed.tensor.parallel.RowwiseParallel`.)

To look: `open` finds the tables of a checkpoint (`roles` says which tensor is which and whether two
are one) and reads only the rows that are asked for, as they
are `stored` or `as_used`; `formats` knows where a file keeps them, `vocabulary` which bytes a row
stands for, `words` which rows a user means. Then a file for each question: `search` and `answer`
find nearest rows, `clusters` and `principal` say how all lie, `health` what is wrong with them,
`positions_table` how far a position table was trained, `movement` what two checkpoints share;
`score` holds a table to benchmarks, `export` writes it for other tools.
"""
