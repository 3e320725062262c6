"""Algorithms that learn from what their present policy did."""
