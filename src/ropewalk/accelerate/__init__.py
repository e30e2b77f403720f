"""Our kernels and encodings put under other people's models, reversibly."""

from ropewalk.accelerate.alibi import accelerate_alibi
from ropewalk.accelerate.handle import Acceleration
from ropewalk.accelerate.rotary import accelerate_rotary

__all__ = ["Acceleration", "accelerate_alibi", "accelerate_rotary"]
