"""Our kernels and encodings put under other people's models, reversibly.

`rotary` and `alibi` are the ways in, `handle` what they return: what was changed, and its undoing.
`probe` finds out by calling it what a model's own rotary function does, `rules` holds those that
are known, `apply` carries one out by our kernels, and `relink` puts functions in place.
"""

from ropewalk.accelerate.alibi import accelerate_alibi
from ropewalk.accelerate.handle import Acceleration
from ropewalk.accelerate.rotary import accelerate_rotary

__all__ = ["Acceleration", "accelerate_alibi", "accelerate_rotary"]
