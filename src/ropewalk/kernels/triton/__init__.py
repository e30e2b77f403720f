"""Kernels for GPUs, in Triton. Import a module of this folder only where triton is installed.

`rotate` and `lookup` hold what runs on the device (`triton.jit`) and the function that launches it.
"""
