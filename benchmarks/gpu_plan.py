"""How the minutes on a GPU are spent, and whether it is fit for them: numbers only, no torch."""

from __future__ import annotations

from dataclasses import dataclass

PROOF, WRITING = 0.14, 0.1
"""Shares of all the time that each of two proofs gets at most, and writing and measuring."""
LEAST_STEPS, MOST_STEPS = 5, 120
LEAST_RATE = 20.0
"""bf16 TFLOP/s of a matrix product below which a GPU is called unfit."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides about the cost of a step."""

    parameters: int
    layers: int
    width: int

    def work(self, tokens: int) -> float:
        """FLOPs of one row, forward, again for the activations, and backward.

        8 a parameter and token; 8 a layer, channel and pair of tokens for causal attention.
        """
        return 8.0 * self.parameters * tokens + 8.0 * self.layers * self.width * tokens**2 / 2


@dataclass(frozen=True, slots=True)
class Probe:
    """What was measured in the first half minute. Memory in GiB; a step is one row of `tokens`."""

    card: str
    memory: float
    tflops: float
    tokens: int
    seconds: float
    peak: float
    shape: Shape


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps of `rows` rows, and the seconds of training, of each proof, and of writing."""

    steps: int
    rows: int
    row_seconds: float
    training: float
    proof: float
    writing: float


def planned(
    probe: Probe, length: int, whole: float, *, spent: float, rows: int, steps: int | None
) -> Plan:
    """What fits into `whole` seconds of which `spent` are gone. `steps` None: as many as fit.

    A row of `length` is taken to cost what its FLOPs say, at the rate of the probe's step.
    """
    row = probe.seconds * probe.shape.work(length) / probe.shape.work(probe.tokens)
    training = max(0.0, whole - spent - (2 * PROOF + WRITING) * whole)
    fitting = min(MOST_STEPS, int(training / (rows * row)))
    return Plan(
        fitting if steps is None else steps, rows, row, training, PROOF * whole, WRITING * whole
    )


def unfit(probe: Probe, plan: Plan, length: int) -> str | None:
    """Why it is no use going on, in a sentence; None where it is."""
    if probe.tflops < LEAST_RATE:
        return (
            f"{probe.card} multiplies bf16 matrices at {probe.tflops:.1f} TFLOP/s, and "
            f"{LEAST_RATE:g} are needed"
        )
    need = probe.peak * length / probe.tokens
    if need > probe.memory:
        return (
            f"{probe.card} has {probe.memory:.0f} GiB, and a row of {length:,} tokens would take "
            f"about {need:.0f}"
        )
    if plan.steps < LEAST_STEPS:
        return (
            f"{probe.card} takes about {plan.row_seconds:.1f} s for a row of {length:,} tokens, so "
            f"only {plan.steps} steps of {plan.rows} rows fit into {plan.training:.0f} s, and "
            f"{LEAST_STEPS} are the least"
        )
    return None
