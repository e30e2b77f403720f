"""Proof of a context window: what a model still finds, at every length and depth.

In the order in which data flows: `haystack` and `needle` make text, `prompt` lays it out to an
exact number of tokens, `subjects` answer it, `runner` asks cell by cell, `store` keeps every
answer, `statistics` turns answers into intervals and an effective length.
"""
