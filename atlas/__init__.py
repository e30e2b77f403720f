"""The atlas: what models of a release of transformers do with positions, measured on them.

`probe` runs a small instance and records what reaches its attention, `rotation` solves the rotation
from that, `shapes` makes the instances small, `observe` puts a type's record together, and `build`
does so for every type and writes the data that the reader of configurations takes. `census` holds
every record against what the reader says. Run by `make atlas`. `engines` reads other engines in
environments of their own, for `make engines`.
"""
