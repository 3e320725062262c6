"""Exported policies: ONNX, torch.export programs, or plain weights with a description.

Imported by `api` and `cli`. What is exported is the algorithm's own acting, traced, so that every algorithm, kind of
observation and memory has it.
"""
