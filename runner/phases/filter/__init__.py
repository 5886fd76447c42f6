"""filter: the solver tries every task n times; tasks that nobody can solve, or that the predicates refuse, go."""
