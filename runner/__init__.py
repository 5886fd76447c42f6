"""Endless Terminals: make RL environments for terminal agents, filter them, train on them.

A recipe (one YAML file) is the whole experiment; ``endless run RECIPE`` compiles it into phases and
runs those that are not done yet. Start reading at ``pipeline.py``.
"""

__version__ = "0.1.0"
