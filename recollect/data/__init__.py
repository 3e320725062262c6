"""Data in and out: episodes of storages, runs, Minari datasets and `.npz` files, each as all others take them.

Imported by `api` and `cli`; imports extras through `extras.py`.
"""
