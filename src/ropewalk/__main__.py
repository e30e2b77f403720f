"""`python -m ropewalk` is the `ropewalk` command."""

from ropewalk.cli.main import main

main()
