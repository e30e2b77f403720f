"""Facts to hide side by side in one document, none of which is like another."""
