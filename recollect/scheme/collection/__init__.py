"""Collection: workers that act in environments, and the worker that takes in what they send."""
