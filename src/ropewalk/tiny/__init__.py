"""The embedded model: a language model of a million parameters that really retrieves.

`ropewalk prove tiny` works on any machine without a download. `tokenizer` and `corpus` make what
it reads, `recipe` trains it, `weights/` holds the result with its training log: it finds a pass
key anywhere in 256 tokens, the length it was trained at, and not beyond.
"""
