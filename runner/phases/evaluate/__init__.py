"""The phase that scores models: the recipe's own policies and others, on its dev tasks and on published benchmarks."""
