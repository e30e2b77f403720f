"""Tables in other tools' files: Parquet, TensorBoard's projector, npy, safetensors, word2vec.

Rows are written as they are read, a stretch at a time, beside the file that is asked for, which
they then replace whole. Each writer says which rows it took and which it had to leave out.
"""
