"""Updates: workers that apply gradients."""
