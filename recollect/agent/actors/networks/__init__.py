"""Network parts: features, recurrent memory, policy heads, critics, normalisation, target networks.

Actors compose them; algorithms know only the distributions. Nothing here knows algorithms or environments.
"""
