"""Data in and out: one form of episodes for storages, runs, Minari datasets and `.npz` files.

Imported by `api` and `cli`; imports extras through `extras.py`.
"""
