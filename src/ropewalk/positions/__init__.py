"""Positional encodings as torch modules, a file each, behind the interface of `base`."""
