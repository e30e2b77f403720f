"""What can be wrong with an embedding table, and how it is shaped: a file for each question.

`scan` goes over the table once for all that a row shows by itself; `check` asks everything and
times it. Every answer is made of plain numbers, tuples and names, so that it prints and goes into
JSON as it is. Nothing here prints, loads a model, or keeps a second copy of the table.
"""
