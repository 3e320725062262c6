"""Collector: workers that act in environments."""
