"""Audit and prove how much of its context window a language model really reads."""
