"""Text that every reader accepts."""


def printable(text: str) -> str:
    """``text`` without lone surrogates, which JSON from a model may carry and neither UTF-8 nor Arrow can."""
    return text.encode("utf-8", "replace").decode("utf-8")
