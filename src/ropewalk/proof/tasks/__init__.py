"""What can be asked of a long text: data of this project's own, a file for each kind of task.

`base` says what a task is and `suite` which there are, by name. `single` hides one fact, `keys`
facts beside facts like them, `follow` facts that must be put together, `tally` what only the whole
text answers; `own` asks about the user's documents.
"""
