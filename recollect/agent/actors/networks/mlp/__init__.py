"""Dense layers: multilayer perceptrons, ensembles of them, and layers with norms, dropout, noise or residual blocks.

Networks beside this room, actors and algorithms import from here; nothing here knows what the features mean.
"""
