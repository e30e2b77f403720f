"""Results as people read them: terminal text and self-contained HTML.

A file for each result and form: `prove_text` and `prove_html`, `audit_text`, `table_near` and so
on. What they share: `text` makes anything from a file safe to print, `page` is the frame of every
HTML page and its content security policy, `heatmap` and `prove_figure` place the map, and
`templates/` holds the HTML. Nothing is measured here.
"""
