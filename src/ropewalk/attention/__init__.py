"""Attention under any positional encoding, by the cheapest kernel that computes it."""

from ropewalk.attention.plan import AttentionPlan, Kernel
from ropewalk.attention.run import attention, plan_attention

__all__ = ["AttentionPlan", "Kernel", "attention", "plan_attention"]
