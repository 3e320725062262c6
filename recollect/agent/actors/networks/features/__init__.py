"""Feature extractors: observations of every space to rows of float32 features, CNNs and image augmentation included.

The registry of features names the builders; bodies of actors import from here.
"""
