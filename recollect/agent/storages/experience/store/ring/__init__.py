"""The ring of lanes: how it is built, read and written, and the piece of it that is sent and saved.

`ExperienceStore`, `sampling`, `persistence` and buffers import from here.
"""
