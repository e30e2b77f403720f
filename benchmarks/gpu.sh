#!/bin/sh
# Checks and times the GPU kernels in one run of under 12 minutes; see benchmarks/gpu.py.
#
#   benchmarks/gpu.sh                 on a machine with a GPU; writes benchmarks/results/gpu-*.json
#   benchmarks/gpu.sh --out FOLDER    writes the result there
#   benchmarks/gpu.sh --rehearse      everything once, tiny, on a CPU under Triton's interpreter
#
# PYTHON names the interpreter; otherwise the first of .venv, python3 and python is taken that has
# torch and triton. Nothing is installed.
set -u
cd "$(dirname "$0")/.." || exit 1

for candidate in "${PYTHON:-}" .venv/bin/python python3 python; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys, importlib.util as u; sys.exit(sys.version_info < (3, 11) or not
all(map(u.find_spec, ("torch", "triton"))))' 2>/dev/null
    then
        found=$candidate
        break
    fi
done
if [ -z "${found:-}" ]; then
    echo "gpu.sh: no Python of 3.11 or newer with torch and triton was found; name one with" \
        "PYTHON=, or install them: pip install 'torch>=2.6'" >&2
    exit 1
fi

case " $* " in
    *" --rehearse "*) export TRITON_INTERPRET=1 ;;
    *) unset TRITON_INTERPRET ;;
esac
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}"
exec timeout --kill-after=10 720 "$found" -m benchmarks.gpu "$@"
