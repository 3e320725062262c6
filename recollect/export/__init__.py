"""Policies that leave: as ONNX, as a program of torch.export, or as plain weights with a description.

Imported by `api` and `cli`. What is exported is the algorithm's own acting, traced, so that every algorithm, kind of
observation and memory has it.
"""
