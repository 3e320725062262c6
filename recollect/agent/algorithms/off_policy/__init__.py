"""Off-policy algorithms: they learn from replayed steps."""
