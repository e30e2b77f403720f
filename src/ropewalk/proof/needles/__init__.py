"""Facts to hide side by side in one document, none of which is like another.

`kinds` are the words around a fact and the form of its value, `words` what facts are about, `draw`
draws as many as a document needs.
"""
