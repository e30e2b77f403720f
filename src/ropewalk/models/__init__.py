"""A model by name, folder or file: what it is, where its files lie, and how it is loaded.

`resolve` finds files without loading anything, `cache` keeps dequantised weights, `dequantise`
makes them, `load` brings a model up and gives it the rotary schedule that was read.
"""
