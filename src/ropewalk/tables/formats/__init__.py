"""File formats that hold tables, one module each.

Each has a `Checkpoint`: the names in a file or a set of shards, and a `Matrix` for any of them
whose rows are read when they are asked for. `find` tells which one a path is, `shards` is what all
offer and share.
"""
