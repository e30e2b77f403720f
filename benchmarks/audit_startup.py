"""How long `ropewalk audit FILE` takes from the shell, beside its ceiling and its peers.

Each round runs, one after the other, in fresh processes: an empty interpreter (the ceiling),
the audit of a config.json with Llama-3.1's values, without and with engines, transformers reading
the same file, the audit of a GGUF, and the gguf package reading the same file. Values are medians
over the rounds, so that all of them meet the same load of the machine. Before that the numbers are
checked against the peers, and that no heavy package is imported.

    python benchmarks/audit_startup.py [--gguf FILE] [--rounds 11]

Needs ropewalk[prove]. The last line is one JSON object; the reach is 0.5 s for each audit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ropewalk.models.resolve import resolve

REACH = 0.5
HEAVY = ("torch", "transformers", "gguf", "safetensors", "tokenizers")

LLAMA_3_1 = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-05,
    "vocab_size": 128256,
}

READ_CONFIG = """
import sys, json
from transformers import AutoConfig
config = AutoConfig.from_pretrained(sys.argv[1])
print(json.dumps([config.max_position_embeddings, config.rope_parameters]))
"""

READ_TABLE = """
import sys, json
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
config = AutoConfig.from_pretrained(sys.argv[1])
inv_freq, factor = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]](config, "cpu")
print(json.dumps([inv_freq.tolist(), factor]))
"""

READ_GGUF = """
import sys, json
from gguf import GGUFReader
fields = GGUFReader(sys.argv[1]).fields
arch = fields["general.architecture"].contents()
keys = ["context_length", "rope.freq_base", "rope.dimension_count", "block_count"]
print(json.dumps([fields[f"{arch}.{key}"].contents() for key in keys]))
"""


def run(command: list[str]) -> str:
    """The command's standard output; its errors end the benchmark."""
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(command, capture_output=True, text=True, env=quiet, check=False)
    if done.returncode:
        raise SystemExit(f"{command[:3]} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of one run in a fresh process."""
    start = time.perf_counter()
    run(command)
    return time.perf_counter() - start


def check_config(audit: list[str], folder: Path) -> None:
    """The audit's lengths and every frequency are those of transformers."""
    ours = json.loads(run([*audit, str(folder), "--json"]))
    claimed, rope = json.loads(run([sys.executable, "-c", READ_CONFIG, str(folder)]))
    inv_freq, factor = json.loads(run([sys.executable, "-c", READ_TABLE, str(folder)]))
    (group,) = ours["groups"]
    assert ours["claimed"]["tokens"] == claimed
    assert ours["trained"]["tokens"] == rope["original_max_position_embeddings"]
    assert group["encoding"]["base"] == rope["rope_theta"]
    assert group["rotary"]["attention_factor"] == factor
    rows = group["rotary"]["pairs"]
    assert len(rows) == len(inv_freq)
    assert all(
        math.isclose(row["inv_freq"], theirs, rel_tol=2e-6)
        for row, theirs in zip(rows, inv_freq, strict=True)
    )


def check_gguf(audit: list[str], file: Path) -> None:
    """The audit's lengths, base, dimension and layers are those of the gguf package."""
    ours = json.loads(run([*audit, str(file), "--json"]))
    claimed, base, dimension, layers = json.loads(run([sys.executable, "-c", READ_GGUF, str(file)]))
    assert ours["claimed"]["tokens"] == claimed
    assert sum(len(group["layers"]) for group in ours["groups"]) == layers
    for group in ours["groups"]:
        assert group["encoding"]["base"] == base
        assert group["encoding"]["rotary_dim"] == dimension


def check_imports(file: Path) -> None:
    """An audit imports none of the heavy packages."""
    code = (
        "import sys, atexit\n"
        f"heavy = {HEAVY!r}\n"
        "atexit.register(lambda: print('IMPORTED', [m for m in heavy if m in sys.modules]))\n"
        "sys.argv = ['ropewalk', 'audit', sys.argv[1]]\n"
        "from ropewalk.cli.main import main\n"
        "main()\n"
    )
    assert run([sys.executable, "-c", code, str(file)]).rstrip().endswith("IMPORTED []")


def measure(commands: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """The median seconds of each command over paired rounds; one unmeasured round before."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        run(command)
    for number in range(rounds):
        for name, command in commands.items():
            times[name].append(seconds(command))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Check, measure, print a table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gguf", type=Path, default=None, help="a GGUF file; default smollm2")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    gguf = options.gguf or resolve("smollm2").path
    audit = [str(Path(sys.executable).with_name("ropewalk")), "audit"]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(LLAMA_3_1), encoding="utf-8")
        check_config(audit, config.parent)
        check_gguf(audit, gguf)
        check_imports(config)
        check_imports(gguf)
        medians = measure(
            {
                "python -c pass (ceiling)": [sys.executable, "-c", "pass"],
                "ropewalk audit config.json": [*audit, str(config)],
                "ropewalk audit config.json --engines": [*audit, str(config), "--engines"],
                "transformers AutoConfig (peer)": [
                    sys.executable, "-c", READ_CONFIG, folder,
                ],
                "ropewalk audit file.gguf": [*audit, str(gguf)],
                "gguf GGUFReader (peer)": [sys.executable, "-c", READ_GGUF, str(gguf)],
            },
            options.rounds,
        )  # fmt: skip
    rows = []
    for name, value in medians.items():
        reach = REACH if name.startswith("ropewalk") else None
        holds = None if reach is None else value <= reach
        rows.append({"name": name, "value": round(value, 4), "unit": "s", "reach": reach,
                     "holds": holds})  # fmt: skip
        print(f"{name:<34}{value:8.3f} s" + ("" if holds is None else f"   holds: {holds}"))
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    print(json.dumps({"benchmark": "audit_startup", "machine": machine, "rows": rows}))


if __name__ == "__main__":
    main()
