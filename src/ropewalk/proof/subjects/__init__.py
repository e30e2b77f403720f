"""A model run here with transformers: asked prompts by themselves, or behind a shared text.

`local` asks (`cache` goes back without copying, `branches` asks several questions in one pass and
says whether a model can), `calls` is the model as token ids to logits to answers.
"""
