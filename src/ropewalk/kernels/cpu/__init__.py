"""Kernels for CPUs, in C++: one shared library, loaded when it is first needed."""
