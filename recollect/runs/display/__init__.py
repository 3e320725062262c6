"""What a training shows while it runs: a live display or plain lines, and its recent speed.

The learner, callbacks and the command line import from here.
"""
