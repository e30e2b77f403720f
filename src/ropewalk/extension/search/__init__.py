"""Divisors of one's own: an evolutionary search, its log, and the test that it has to pass.

`run` is the way in, `candidate` what is searched, `evolve` the search without a model, `verdict`
the test against the best closed form on prompts that the search has not seen.
"""
