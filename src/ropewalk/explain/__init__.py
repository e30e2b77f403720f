"""How order and scale come about, in numbers, and what a real model makes of its input.

`order` shows what attention makes of order, `scale` how position and identity share a vector,
`encodings` sets every encoding side by side. On a real model, `trace` follows a text to the first
block and compares each `steps` with our own (`watch` hooks the model, `rotation` rotates q and k),
and `join` measures what a packed document leaks into the next. `occurrences`, `meaning` and
`layer_score` follow words from the table through the layers.
"""
