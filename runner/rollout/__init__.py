"""Rollouts: an agent acts in a sandbox and is graded. What the filter, training and evaluation have in common."""
