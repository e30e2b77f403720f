"""Proof of a context window: what a model still finds, at every length and depth.

The ways in are `session`, for a model that is run here, and `endpoint_session`, for one at a
server; `settings` is what either is told, and `proof` what they share. In the order in which data
flows: `plan` says which cells to ask, `tasks` and `needles` what is hidden, `haystack` and
`filling` make text, `prompt` lays out one prompt to an exact number of tokens, `documents` and
`layout` one document for many questions. `subjects` answer; `runner`, `walk` and `endpoint_run` ask
them, by themselves, branch by branch, or several at once. `classify` judges an answer, `store`
keeps it, `statistics` turns answers into intervals and an effective length, `sentences` puts those
into words.

Beside that: `diff` compares two runs, `loss` and `loss_run` measure loss by position, `reasons`
says what the schedule predicts, and `cost` what a plan will take.
"""
