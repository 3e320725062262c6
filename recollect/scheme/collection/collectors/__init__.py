"""How a learner gets experience: from a worker in its own process, or from remote ones, sync or async.

`CWorkerSet` builds a collector; gradient workers drive it. Messages between the two ends live here as well.
"""
