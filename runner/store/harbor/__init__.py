"""The Harbor task format, read and written: ``settings`` is task.toml, ``folder`` the files around it."""
