"""Which steps make up a batch, and how they are gathered: priorities, recency, hindsight, sequences, prefetch.

Buffers compose these parts. They read the ring and never write to it.
"""
