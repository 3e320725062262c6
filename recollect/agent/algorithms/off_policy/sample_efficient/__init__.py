"""Soft actor-critics that learn much from each step: REDQ, DroQ and CrossQ, one module for each.

The registry finds them by name; `offline` builds RLPD on REDQ, and no other room imports them.
"""
