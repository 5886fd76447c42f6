"""OpenRLHF on a machine without a GPU, for tiny policies: ``training.device: cpu``."""
