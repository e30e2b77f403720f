"""Proof of a context window: the needle-in-a-haystack test, with intervals and an effective length.

A fact (the needle) is hidden in a long text (the haystack), at every length and depth, many times
over, and the model is asked for it. `prove.prove` is the way in; `settings` says what can be asked.
In the order in which data flows: `plan` says which cells to ask, `needles` and `tasks` what is
hidden, `haystack` makes text, `prompt` lays out one prompt to an exact number of tokens, and
`gapped` a haystack for many, which `branching` asks. `local` is a model that is run here
(`subjects`), `served` one at a server (`endpoint`); `ask` is the one loop that asks either, by what
`subject` says of them.
`classify` judges an answer, `store` keeps it beside the `facts` of the run, `statistics` turns
answers into intervals and an effective length, and `sentences` puts those into words.

Beside that: `calibration` asks branches both ways, `diff` compares two runs, `loss` and
`loss_run` measure loss by position, and `reading` says what a plan will take.
"""
