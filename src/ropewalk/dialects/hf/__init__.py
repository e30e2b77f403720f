"""Hugging Face configurations: `read_config` makes a position spec of one, `load_json` opens it.

`read` is the way in. `values` gives typed access to outside JSON, `facts` holds what
transformers assumes by model type, `family` finds the text part, and the others read one thing
each: lengths, the rope dictionary, rotary dimensions, scaling, layers, softmax.
"""

from ropewalk.dialects.hf.reader import read_config
from ropewalk.dialects.values import load_json

__all__ = ["load_json", "read_config"]
