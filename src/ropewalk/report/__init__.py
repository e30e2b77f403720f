"""Results as people read them: terminal text and self-contained HTML."""
