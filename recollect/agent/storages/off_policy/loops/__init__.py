"""Steps of training loops outside this library: made samples of a store, with checks that episodes end where they say.

Off-policy storages and adapters import from here.
"""
