"""The nouns of the field: tasks, episodes, outcomes and errors. Imports nothing of ours."""
