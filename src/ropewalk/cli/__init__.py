"""The `ropewalk` command: one thin file a subcommand."""
