"""The one error tree.

::

    EndlessError
    ├── UserError (ValueError)       the user's input is wrong: exit code 2, one or two lines, never a traceback
    │   ├── RecipeError              a key, group, value or file of the recipe
    │   ├── TaskFormatError          a task folder that is not a Harbor task
    │   └── MissingRequirement       an absent engine, API-key variable, tool or extra
    ├── InfraError (RuntimeError)    the world's fault, never the task's: retried, then reported
    │   ├── EngineError              a container engine or namespace failed
    │   │   └── EngineGone           it does not even answer: stopped, or about to be back
    │   ├── ProviderError            a model's server failed or answered garbage
    │   └── StorageError             a disk is full or read-only
    ├── BudgetExceeded               the recipe's dollar or call limit is reached: a resumable stop
    ├── Incomplete                   a phase ended with items lost to infrastructure: run again to retry them
    └── ReplayMiss                   a recording has no reply for a slot

What a model writes wrongly (a script that does not build, a reply that does not parse) is data, not an
exception: see the reason codes in ``phases/generate``.
"""

from collections.abc import Callable
from typing import Any


class EndlessError(Exception):
    """Base of every error this project raises on purpose."""


class UserError(EndlessError, ValueError):
    """The user's input is wrong. The message says what, where, and what would be right."""


class RecipeError(UserError):
    """A recipe, a config group or an override is wrong."""


class TaskFormatError(UserError):
    """A folder is not a task we can read."""


class MissingRequirement(UserError):
    """Something the recipe names is not on this machine; the message says how to get it."""


class InfraError(EndlessError, RuntimeError):
    """Infrastructure trouble: retried with back-off, then reported; never a zero reward."""


class EngineError(InfraError):
    """A container engine or a namespace could not do its work."""


class EngineGone(EngineError):
    """A container engine does not answer: its daemon was stopped, or it restarts and is worth waiting for."""

    def __init__(self, message: str, answers: Callable[[], bool]) -> None:
        """``answers`` says, within seconds, whether it is there again."""
        super().__init__(message)
        self.answers = answers

    def __reduce__(self) -> tuple[type[EngineError], tuple[Any, ...]]:
        """Elsewhere, in another process, there is nobody to ask."""
        return EngineError, self.args


class ProviderError(InfraError):
    """A model's server could not be reached, kept failing, or answered with garbage."""


class StorageError(InfraError):
    """A file could not be written."""


class BudgetExceeded(EndlessError):
    """The recipe's budget is used up; what was answered so far is kept."""


class Incomplete(EndlessError):
    """Some items of a phase ended as infra and stay to be done."""


class ReplayMiss(EndlessError):
    """A replayed recording holds no reply for the requested slot."""
