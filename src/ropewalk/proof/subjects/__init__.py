"""What can be asked: a model run here with transformers, or one at a server (`endpoint`).

`local` asks prompts by themselves, `sharing` reads a shared text once and asks branches off it
(`cache` goes back without copying, `branches` asks several in one pass, `sharable` says whether a
model can). `calls` is the model as token ids to logits in pieces that fit, `judge` reads an answer
off logits, the same way for all.
"""
