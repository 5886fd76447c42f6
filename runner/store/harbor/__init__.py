"""The Harbor task format, read and written: ``settings`` is task.toml (``services`` a part), ``folder`` the files."""
