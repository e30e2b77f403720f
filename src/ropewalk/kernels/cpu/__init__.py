"""Kernels for CPUs, in C++: one shared library, loaded when it is first needed.

`library` finds and loads it; `rotate`, `lookup` and `cosines` write tensors down as the requests of
`abi.h` and call it. In C++, `*_rows.h` hold the loops, written once for the vectors of `lanes_*.h`
and compiled once for each set of instructions (`*_avx2.cpp`, ...); `processor.cpp` picks one.
"""
