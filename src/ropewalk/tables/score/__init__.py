"""Tables scored by benchmarks people know: pairs of words judged by people, and analogies.

`datasets` reads them, `spellings` says which row a word is, `benchmarks` scores.
"""
