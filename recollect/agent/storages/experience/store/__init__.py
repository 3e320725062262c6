"""Where steps live: the schema of a step, the ring of lanes, its memory, and who feeds it.

`ExperienceStore` is what buffers hold; `sampling` and `persistence` read its ring.
"""
