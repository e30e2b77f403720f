"""How order and scale come about, in numbers, and a real model's input path step by step.

`order` and `raw_index` show what attention makes of order; `scale` how position and identity
share a vector; `trace` follows a text into a real model and compares each step with our own.
"""
