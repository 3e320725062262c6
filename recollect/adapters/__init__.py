"""Recollect's replay buffers inside other libraries: one module for each library, each behind an extra of its name.

They use the storages, and nothing of Recollect's training loop. Users import them; no other room does.
"""
