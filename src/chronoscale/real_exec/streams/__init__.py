"""Training on event streams.

`material` is what programs of one stream read; `batch` and `steps` are a batch and what is done to it; `program` trains with a copy of node
memory on each rank, and `spread` with memory that is partitioned over ranks; `models` are the models.
"""
