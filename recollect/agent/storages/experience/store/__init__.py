"""The store of steps: the schema of a step, the ring of lanes, its memory and its sources.

`ExperienceStore` is what buffers hold; `sampling` and `persistence` read its ring.
"""
