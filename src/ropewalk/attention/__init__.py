"""Attention under any positional encoding, by the cheapest kernel that computes it.

`run` checks what is given (`prepare`, whose result says the plan) and runs it, `plan` is the one
place where a kernel is chosen, `visible` says which keys a query sees, `packed` takes documents
one at a time, and `flex` is FlexAttention.
"""

from ropewalk.attention.attend import attention
from ropewalk.attention.plan import AttentionPlan, Kernel

__all__ = ["AttentionPlan", "Kernel", "attention"]
