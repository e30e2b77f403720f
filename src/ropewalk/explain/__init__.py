"""How order and scale come about, in numbers computed on the spot.

`order` and `raw_index` show what attention makes of order; `scale` how position and identity
share a vector.
"""
