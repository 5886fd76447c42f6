"""The phase that says what a run means: why its failures fail, what became of its taxonomy, and the report."""
