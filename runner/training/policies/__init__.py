"""Policies that are made rather than downloaded. These modules run with the trainer's Python, as programs."""
