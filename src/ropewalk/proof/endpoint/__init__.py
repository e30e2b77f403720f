"""Servers that speak the OpenAI API, asked the same prompts as a model run here.

One idea a file: `policy` says when to send and when to send again, `client` sends, `replies` reads
what comes back, `probe` finds out what a server can do and how it counts (`tokenizers`), `subject`
says what is sent and makes an answer of a reply, and `work` keeps several servers busy in an order
in which their prefix caches hit.
"""
