"""The figures, one idea a module: data in, a ``Picture`` out."""
