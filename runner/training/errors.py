"""What goes wrong with a trainer."""

from runner.domain.errors import EndlessError


class TrainerError(EndlessError):
    """The trainer died, hung, or was ended because it learns nothing. Its checkpoints are kept: run again to go on."""
