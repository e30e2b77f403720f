"""The `ropewalk` command: one thin file a subcommand, named after it.

`main` is the way in: the table of commands, and where an error becomes one sentence and an exit
code. `table/` is the group `ropewalk table`. A command reads its options, calls another room and
prints what `ropewalk.report` makes of the answer; nothing is computed here.
"""
