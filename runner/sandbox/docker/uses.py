"""When each image and volume was last used, which the engine does not say."""

import logging
from pathlib import Path

log = logging.getLogger(__name__)


class Uses:
    """An empty file each, whose time it is. Safe to share between threads and processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def below(cls, cache: Path) -> "Uses":
        """The record of a cache folder."""
        return cls(cache / "docker" / "uses")

    def note(self, name: str) -> None:
        """It is used now. A record that cannot be written is done without."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / name).touch()
        except OSError as error:
            log.debug("the use of %s is not recorded: %s", name, error)

    def last(self, name: str) -> float:
        """Seconds since the epoch; 0 when no use is known."""
        try:
            return (self._folder / name).stat().st_mtime
        except OSError:
            return 0.0

    def forget(self, name: str) -> None:
        """It is gone."""
        (self._folder / name).unlink(missing_ok=True)
