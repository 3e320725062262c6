"""The experience store: lanes of steps in rings, what draws from them, and what writes them to disk.

Arrays in, arrays out: nothing here knows actors, algorithms, environments or workers. Storages import from it;
it imports none of them. `store` gathers batches with parts of `sampling`; `persistence` reads and fills a store.
"""
