"""Positional encodings as torch modules, a file each, behind the interface of `base`.

A value of `ropewalk.rope.spec` says what an encoding is; the module of the same name here
computes it: `positions.Rotary(spec.RotarySpec(head_dim=64, rotary_dim=64, rope_theta=10_000.0))`.
"""

from ropewalk.positions.axes import Axial, Chunked, Interleaved, OneAxis
from ropewalk.positions.base import ByLayerType, Description, PositionEncoding, ScoreFeatures
from ropewalk.positions.figures import Figures, measure, measure_vectors
from ropewalk.positions.from_mask import position_ids_from_mask
from ropewalk.positions.learned import Learned
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.rotary import Rotary, rerotate
from ropewalk.positions.rotary_tables import RotatedHeads, Tables, to_half, to_interleaved
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.positions.xpos import XPos

__all__ = [
    "Axial",
    "ByLayerType",
    "Chunked",
    "Description",
    "Figures",
    "Interleaved",
    "Learned",
    "NoPosition",
    "OneAxis",
    "PositionEncoding",
    "Rotary",
    "RotatedHeads",
    "ScoreFeatures",
    "Sinusoidal",
    "Tables",
    "XPos",
    "measure",
    "measure_vectors",
    "position_ids_from_mask",
    "rerotate",
    "to_half",
    "to_interleaved",
]
