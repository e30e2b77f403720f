"""A model's position settings in each engine's words, read into `ropewalk.rope.spec`."""
