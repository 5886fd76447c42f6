"""Scoring policies outside of training: on published benchmarks, through Harbor."""
