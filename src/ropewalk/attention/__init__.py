"""Attention under any positional encoding, by the cheapest kernel that computes it.

`run` checks what is given and runs the plan, `plan` is the one place where a kernel is chosen,
`visible` says which keys a query sees, `packed` takes documents one at a time, `flex` is
FlexAttention, and `given` reads the masks that transformers hands to a model.
"""

from ropewalk.attention.plan import AttentionPlan, Kernel
from ropewalk.attention.run import attention, plan_attention

__all__ = ["AttentionPlan", "Kernel", "attention", "plan_attention"]
