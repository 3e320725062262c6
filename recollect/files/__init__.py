"""The file layer: whole files that survive a power cut, folders with one owner, records with a checksum.

Everything that a run or a storage keeps goes through it, so every room above the vocabulary may import it.
"""
