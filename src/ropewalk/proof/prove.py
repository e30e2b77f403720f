"""A whole proof, from a model's name to kept answers and their summary.

The order is the one in which things can go wrong: names and numbers are checked before torch is
imported, a named run folder is tried before weights are loaded, and the live model's frequencies
are compared with the schedule before the first token.
"""

from __future__ import annotations

import platform
import time
from dataclasses import replace

from ropewalk.errors import LengthError
from ropewalk.findings import audit
from ropewalk.models.dtypes import dtype_word
from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import ModelFiles, read_spec, resolve
from ropewalk.models.rotary_tables import as_loaded, install, schedule_fingerprint
from ropewalk.proof.calibration import Calibrate
from ropewalk.proof.cells import Sharing
from ropewalk.proof.endpoint.subject import PREFIX
from ropewalk.proof.facts import (
    folder_name,
    hash_by,
    plan_facts,
    settings_facts,
    sharing_facts,
    try_folder,
)
from ropewalk.proof.haystack import read_sentences
from ropewalk.proof.local import Asking, LocalRun
from ropewalk.proof.progress import ASKING, RunResult
from ropewalk.proof.proof import (
    DryRun,
    Proof,
    ProofListener,
    check_lengths,
    check_texts,
    default_lengths,
    planned,
    prompt_maker,
    proof_of,
    sharing_line,
    tell_budget,
    until_certain,
)
from ropewalk.proof.reading import Budget
from ropewalk.proof.settings import (
    DEFAULT_DEPTHS,
    DEFAULT_DOCUMENTS,
    DEFAULT_TRIALS,
    RUNS,
    ProofSettings,
    as_stated,
)
from ropewalk.proof.store import Store
from ropewalk.proof.subjects.branches import Sharable
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.override import override
from ropewalk.rope.spec import PositionSpec

__all__ = [
    "DEFAULT_DEPTHS",
    "DEFAULT_DOCUMENTS",
    "DEFAULT_TRIALS",
    "RUNS",
    "DryRun",
    "Proof",
    "ProofListener",
    "ProofSettings",
    "default_lengths",
    "prove",
]


def prove(settings: ProofSettings, listener: ProofListener | None = None) -> Proof:
    """Run a proof, or go on with the one that lies in its run folder.

    Raises DryRun where that is all that was asked for, and otherwise an error of
    `ropewalk.errors`; what was answered before it stays in the run folder.
    """
    tell = listener or ProofListener()
    deadline = None if settings.seconds is None else time.monotonic() + settings.seconds
    settings.check()
    if settings.model.startswith(PREFIX):
        # Most proofs are of models that are run here, and need nothing of what servers need.
        from ropewalk.proof.served import prove_endpoint

        return prove_endpoint(settings, tell, deadline)
    files = resolve(settings.model)
    settings, asked_as = as_stated(settings, files)
    written = read_spec(files)
    spec = override(written, settings.rope) if settings.rope else written
    lengths = settings.lengths or default_lengths(spec.claimed.tokens)
    plan = planned(settings, lengths, Sharing.NONE)
    own = settings.own_questions()
    sentences = read_sentences(settings.haystack) if settings.haystack else None
    _begin(settings, asked_as, tell)
    device, dtype = check_device(settings.device, settings.dtype, files)
    loaded = load(
        files,
        device=device,
        dtype=dtype,
        device_map=settings.device_map,
        say=tell.say,
        share=tell.share,
    )
    tokens = Tokens(loaded.tokenizer, loaded.rows)
    maker = prompt_maker(settings, tokens, sentences, own)
    check_texts(tokens, settings, sentences, own)
    check_lengths(plan, maker.minimum)
    tables = as_loaded(loaded.model, written)
    install(loaded.model, spec, None)
    local, able = _shared(settings, LocalRun(loaded.model, tokens, spec, plan, maker), tell)
    local.check_rest(able.sharing)
    local, budget = _budgeted(settings, local, able, deadline, tell)
    plan = local.plan
    tell_budget(settings, budget, tell)
    facts = {
        **_facts(settings, files, spec, loaded.identity, tokens),
        **settings_facts(settings, sentences, own, chat=settings.chat),
        **plan_facts(plan, settings.threshold, spec),
        "device": str(device) if settings.device_map is None else f"by {settings.device_map}",
        "dtype": dtype_word(dtype),
        "tables": tables,
        **sharing_facts(able.sharing, plan.lengths, plan.depths),
        **({"not shared": able.reason} if able.reason else {}),
        **({"asked as": "; ".join(asked_as)} if asked_as else {}),
    }
    folder = settings.out or RUNS / folder_name(f"{files.title}-{settings.rope or ''}", facts)
    with Store.open(folder, facts) as store:
        tell.planned(plan, folder)
        asking = Asking(store, hash_by(facts), tell.event, deadline)
        result = _run(settings, local, budget, asking, tell)
        return proof_of(store, folder, result, audit(spec, name=files.title))


def _begin(settings: ProofSettings, asked_as: tuple[str, ...], tell: ProofListener) -> None:
    """Try a named folder, say how the model is asked, and that the long part begins."""
    if settings.out is not None:
        try_folder(settings.out)
    for line in asked_as:
        tell.note(line)
    tell.say("loading torch and transformers")


def _shared(
    settings: ProofSettings, local: LocalRun, tell: ProofListener
) -> tuple[LocalRun, Sharable]:
    """Decide what prompts share, say why, and plan as many trials as that takes."""
    wanted, why = settings.sharing or Sharing.NESTED, ""
    if settings.sharing is None and (why := settings.not_nested()):
        wanted = Sharing.PREFIX
    able = local.able(wanted)
    if able.sharing is Sharing.NESTED:
        try:
            local.check(able.sharing)
        except LengthError as error:
            if settings.sharing is not None:
                raise
            able, why = replace(able, sharing=Sharing.PREFIX), str(error)
    if able.reason:
        tell.note(f"nothing is shared between prompts: {able.reason}")
    elif settings.sharing is None:
        tell.note(sharing_line(able.sharing, why))
    plan = planned(settings, local.plan.lengths, able.sharing)
    return local.with_plan(plan), able


def _budgeted(
    settings: ProofSettings,
    local: LocalRun,
    able: Sharable,
    deadline: float | None,
    tell: ProofListener,
) -> tuple[LocalRun, Budget]:
    """What the plan will take; a plan that may be shortened until it fits the time, is."""
    budget = local.budget(able.sharing, settings.calibrate, settings.seed, able.bytes)
    left = None if deadline is None or not settings.shorten else deadline - time.monotonic()
    while (
        left is not None
        and budget.seconds is not None
        and budget.seconds > left
        and len(local.plan.lengths) > 1
    ):
        *shorter, longest = local.plan.lengths
        tell.note(
            f"{longest:,} tokens are left out: with them this would take about "
            f"{budget.seconds:,.0f} seconds here"
        )
        local = local.with_plan(planned(settings, tuple(shorter), able.sharing))
        budget = local.budget(able.sharing, settings.calibrate, settings.seed, able.bytes)
    return local, budget


def _run(
    settings: ProofSettings, local: LocalRun, budget: Budget, asking: Asking, tell: ProofListener
) -> RunResult:
    """Calibrate nested prompts, fall back from them if they are another test, and ask."""
    sharing = budget.sharing
    if sharing is Sharing.NESTED and budget.calibrate is Calibrate.OFF:
        why = "as was asked for" if settings.calibrate else "it would read more than nesting saves"
        said = f"none, {why}; --calibrate short asks cells both ways"
        asking.store.note({"calibration": said})
    elif sharing is Sharing.NESTED:
        tell.say(f"calibrating ({budget.calibrate})")
        # Of a limited time the half at most: a map that is not calibrated is better than none.
        half = asking.deadline and (time.monotonic() + asking.deadline) / 2
        found, ended = local.calibrate(
            budget.calibrate, settings.seed, replace(asking, deadline=half)
        )
        if ended is not None and ended.interrupted:
            return ended
        if ended is not None:
            said = "not finished in half of the time, so that nested answers are not calibrated"
            tell.note(f"calibration: {said}")
            asking.store.note({"calibration": said})
        if found is not None:
            tell.note(found.sentence)
            asking.store.note({"calibration": found.sentence})
            if found.real:
                sharing = Sharing.PREFIX
                asking.store.note({"fallback": sharing.value})
    tell.say(ASKING)
    first = local.run(sharing, asking)
    return until_certain(
        settings, first, asking.store, lambda cells: local.run(sharing, asking, cells), tell
    )


def _facts(
    settings: ProofSettings, files: ModelFiles, spec: PositionSpec, identity: str, tokens: Tokens
) -> dict[str, str]:
    """What the store keeps of the model beside the answers, and of what ran it."""
    import torch
    import transformers

    from ropewalk import __version__

    return {
        "name": files.title,
        "model": identity[:16],
        "schedule": schedule_fingerprint(spec),
        "rope": settings.rope or "as shipped",
        "tokenizer": tokens.fingerprint(),
        "chat": "chat template" if settings.chat else "base prompt",
        "versions": (
            f"ropewalk {__version__}, torch {torch.__version__}, "
            f"transformers {transformers.__version__}, Python {platform.python_version()}"
        ),
    }
