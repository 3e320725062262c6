"""The schema of a step: its fields, where each lies in a ring, and schemas as text for files and messages.

Everything in `experience/` and the buffers import from here; nothing here holds data.
"""
