"""`audit` and `convert`: a model's configuration or its file's header is read, and no weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ropewalk import findings
from ropewalk.errors import UsageError
from ropewalk.findings import Audit
from ropewalk.verbs.converting import Converted, To, write
from ropewalk.verbs.taken import AnyModel, Named, Tokens, path, taken, tokens


def audit(
    model: AnyModel, *, engines: bool = False, length: Tokens | None = None, name: str | None = None
) -> Audit:
    """What a model says of position, how it got its context length, and what to beware of.

    Reads headers and configurations, no weights, and imports no torch for them.

    Args:
        model: a Hugging Face folder, a config.json, a .gguf file, a hub id or a known name; or a
            parsed config.json, a configuration of transformers, a `PositionSpec`, or a loaded
            model of transformers, whose tables are then compared with its configuration.
        engines: say what each engine computes for these settings, in `Audit.engines`.
        length: for a loaded model, the prompt length in tokens whose schedule its tables should
            hold; by default that of a short prompt.
        name: what to call the model.

    Returns:
        An `Audit`: lengths in tokens, inverse frequencies in radians per token, `findings` with
        their remedies. `Audit.live` says whether a loaded model does what it says.

    Raises:
        UnknownModelError, ConfigError, GgufError: what is not there, or cannot be read.
        UsageError: what is no model.

    Example:
        >>> import ropewalk
        >>> ropewalk.audit("tiny").spec.claimed.tokens
        256
    """
    given = taken(model)
    found = findings.audit(given.spec, name=given.title if name is None else name)
    if engines:
        from ropewalk.dialects.engines import engine_views

        found = replace(found, engines=tuple(engine_views(given.spec)))
    if given.module is not None:
        from ropewalk.findings.live import compare_live

        short = None if length is None else tokens(length, "length")
        return replace(found, live=compare_live(given.module, given.spec, short))
    if length is not None:
        raise UsageError("length goes with a loaded model, whose tables it is the length of")
    return found


def convert(
    model: AnyModel,
    to: To,
    *,
    out: Named | None = None,
    rope: str | Sequence[str] | None = None,
    length: Tokens | None = None,
    weights: Named | None = None,
    original: Tokens | None = None,
    force: bool = False,
) -> Converted:
    """A model's position settings in another engine's words: the same numbers, or an error.

    Args:
        model: as `audit` takes it. "gguf" needs the model's files.
        to: "vllm" and "llamacpp" give a line of options; "hf4" and "hf5" the config.json of
            transformers 4 and 5; "gguf" writes a copy of the model's own file.
        out: the file to write; never the model's own.
        rope: another schedule, or several in order: "yarn:2", "linear:2", "ntk:2", "none", ...
        length: the longest prompt to serve, in tokens or like "32k" ("vllm", "llamacpp").
        weights: for "gguf" where the model is a folder, what llama.cpp's converter made of it.
        original: the length that the schedule of `rope` starts from, where the files state none
            or another one (Qwen3: 32768), in tokens or like "32k".
        force: write over an existing file.

    Returns:
        A `Converted`, with `options`, `config` or `written`, and remarks beside them.

    Raises:
        UsageError: settings that cannot be said in these words, or a place not to be written to.
        ScheduleError: a schedule that cannot be. ConfigError, GgufError: as `audit`.

    Example:
        >>> ropewalk.convert("tiny", "hf5", rope="yarn:4").config["rope_parameters"]["factor"]
        4.0
    """
    if weights is not None and to != "gguf":
        raise UsageError(f"--weights goes with --to gguf, not {to}; leave it away")
    served = None if length is None else tokens(length, "--length")
    start = None if original is None else tokens(original, "--original")
    schedules = [rope] if isinstance(rope, str) else list(rope or ())
    return write(
        taken(model), to, schedules, out=path(out), length=served, weights=path(weights),
        original=start, force=force,
    )  # fmt: skip
