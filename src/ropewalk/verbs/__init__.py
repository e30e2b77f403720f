"""What the commands do, as functions: `ropewalk.audit`, `prove`, `extend`, `tune`, `compare`, ...

Names, options and defaults are those of the commands, which call these functions and print what
they give back. `taken` says what a model, a length or a list may be; `reading` needs a model's
files or its configuration at most, `running` loads and trains.
"""
