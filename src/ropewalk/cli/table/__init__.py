"""`ropewalk table MODEL ...`: what is in an embedding table, a file for each question."""
