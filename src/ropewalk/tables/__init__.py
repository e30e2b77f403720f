"""Token embedding tables: built, resized, spread over ranks, and opened without their model.

`module` is the layer, `resize` and `new_rows` change its length, `parallel` spreads its rows.
`open` finds the tables of a checkpoint and reads only the rows that are asked for; `formats`
knows where a file keeps them, `vocabulary` which bytes a row stands for.
"""
