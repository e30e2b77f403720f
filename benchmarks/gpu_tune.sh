#!/bin/sh
# SmolLM2 at 32,768 tokens on one GPU, in at most 9 minutes; see benchmarks/gpu_tune.py.
#
#   benchmarks/gpu_tune.sh prepare      here: build/gpu_tune/parts.json and part-*, under 60 MB each
#   benchmarks/gpu_tune.sh received     there: which parts are still to come
#   benchmarks/gpu_tune.sh              there: probe, stretch, prove, tune, prove
#   benchmarks/gpu_tune.sh --device cpu --model tiny --length 512 --steps 3      a rehearsal
#
# PYTHON names the interpreter; otherwise the first of .venv, python3 and python is taken that has
# torch and transformers. Nothing is installed.
set -u
cd "$(dirname "$0")/.." || exit 1

for candidate in "${PYTHON:-}" .venv/bin/python python3 python; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys, importlib.util as u; sys.exit(sys.version_info < (3, 11) or not
all(map(u.find_spec, ("torch", "transformers"))))' 2>/dev/null
    then
        found=$candidate
        break
    fi
done
if [ -z "${found:-}" ]; then
    echo "gpu_tune.sh: no Python of 3.11 or newer with torch and transformers was found; name one" \
        "with PYTHON=" >&2
    exit 1
fi

export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONUNBUFFERED=1
# The run ends by itself before; what it had measured by then is written in any case. A rehearsal
# has the time that it takes.
case " $* " in
    *" --device cpu "*) limit=3600 ;;
    *) limit=535 ;;
esac
exec timeout --kill-after=5 "$limit" "$found" -m benchmarks.gpu_tune "$@"
