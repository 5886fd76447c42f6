"""Text files of a task folder, read with what is wrong in one line."""

from pathlib import Path

from runner.domain.errors import TaskFormatError


def required(folder: Path, name: str) -> str:
    """A file's text. Raises TaskFormatError, without the folder's name."""
    text = optional(folder, name)
    if text is None:
        raise TaskFormatError(f"{name} is missing")
    return text


def optional(folder: Path, name: str) -> str | None:
    """A file's text with its line ends as they are; None when there is none. Raises TaskFormatError."""
    path = folder / name
    if not path.is_file():
        return None
    try:
        return path.read_bytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise TaskFormatError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise TaskFormatError(f"{name} cannot be read: {error.strerror}") from error
