"""The experience store: lanes of steps in rings, what draws from them, and what writes them to disk.

Arrays in, arrays out: nothing here knows actors, algorithms, environments or workers. Storages import from it;
it imports none of them. The rooms build on each other: `persistence` and `sampling` on `store` on `kernels`.
"""
