"""A trainer's figures: followed while it trains, under fixed names, and judged."""

from runner.training.figures.follow import Follower, read_points
from runner.training.figures.names import metric_name
from runner.training.figures.sanity import check_sanity

__all__ = ["Follower", "read_points", "metric_name", "check_sanity"]
