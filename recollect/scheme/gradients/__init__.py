"""Gradients: workers that turn stored experience into gradients."""
