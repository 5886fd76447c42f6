"""Numbers in words."""


def counted(number: int, one: str, many: str = "") -> str:
    """``1 step``, ``2 steps``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
