"""Documents packed into rows of one length, and everything that must know where they lie.

    for row in pack(documents, 4096, boundary=Boundary(after=eos)):
        row.token_ids, row.layout.position_ids(), row.layout.segment_ids()

In the order in which data flows: `pack` fills rows by a policy and stacks them for a model,
`layout` says where each document lies in a row and makes positions, masks and `cu_seqlens` from
that one list, `distances` counts how often training on the rows will see each distance.

From files to a file: `texts` reads documents out of text, JSON lines, Parquet and folders, `tokens`
tokenises them in batches and long ones piece by piece, `row_file` writes rows as Parquet, `files`
does all of it in one stream, and `read` gives the rows back.
"""
