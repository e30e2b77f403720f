"""Servers that speak the OpenAI API, asked the same prompts as a model run here.

One idea a file: `limits` and `policy` say when to send and when to send again, `client` sends,
`replies` reads what comes back, `probe` finds out what a server can do, `tokenizers` and
`calibration` count as it counts, `judge` makes an answer of a reply, and `work` keeps several
servers busy in an order in which their prefix caches hit.
"""
