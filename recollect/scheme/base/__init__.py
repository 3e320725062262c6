"""What all workers have in common: worker sets, commands, Ray, supervision and restarts.

The other rooms of `scheme` import from here; it imports none of them.
"""
