"""Kernels for GPUs, in Triton. Import a module of this folder only where triton is installed.

`rotary` and `embedding` check nothing and launch; `turn_block` and `lookup_block` are what runs on
the device.
"""
