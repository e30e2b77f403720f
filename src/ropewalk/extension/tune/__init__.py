"""Brief continued training on long packed documents, on one process or sharded over several.

In the order of a run: `settings` what was asked for, `data` rows of documents, `model` the model
to be trained and what it is handed, `world` the processes and the sharding, `loss` the loss in
chunks, `optimiser` and `loop` the steps, `checkpoint` stopping and going on, `journal` what each
step cost, `gate` what short texts lost, `export` the tuned model, `session` all of it.
"""
