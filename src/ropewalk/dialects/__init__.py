"""A model's position settings in each engine's words, read into `ropewalk.rope.spec` and written.

`hf` and `gguf` are files, `vllm` and `llamacpp` options for a command line (`flags` parses those);
`same` compares what was written with what was meant. `engines` says what each engine computes.
"""
