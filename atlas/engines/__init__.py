"""What engines make of a file, measured on their own model classes."""
