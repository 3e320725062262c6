"""What all workers have in common."""
