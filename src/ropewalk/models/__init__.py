"""A model by name, folder or file: what it is, where its files lie, and how it is loaded.

`resolve` finds files without loading anything, `tokenizer` needs no weights, `dequantise` makes
weights of a GGUF file and `cache` keeps them, `load` brings a model up, and `rotary_tables` gives
it the rotary schedule that was read.
"""
