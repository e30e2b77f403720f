"""Kernels for GPUs, in Triton. Import a module of this folder only where triton is installed."""
