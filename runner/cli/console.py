"""What a person sees while a recipe runs: a progress bar with counts by outcome, or plain lines without a terminal."""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from runner.domain.episode import Outcome

PLAIN_SECONDS = 10.0
"""Without a terminal a line is written this often, and at the end."""

_FIGURES = {
    "sft/loss": "loss",
    "ppo/reward": "reward",
    "ppo/turns": "turns",
    "ppo/response_length": "tokens",
    "ppo/seconds_step": "seconds",
}
_STYLES = {Outcome.PASS: "green", Outcome.FAIL: "yellow", Outcome.INFRA: "red"}


def console(*, stderr: bool = False) -> Console:
    """The terminal. Colour and width follow it; a pipe gets plain text of 120 columns."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=120)


def log_to(screen: Console, *, verbose: bool) -> None:
    """Send our own log lines to the screen, and nobody else's below a warning."""
    handler = RichHandler(console=screen, show_time=False, show_path=False, show_level=False, markup=False)
    handler.setFormatter(_Formatter())
    logger = logging.getLogger("runner")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)


class _Formatter(logging.Formatter):
    """``warning: ...`` for what matters, the bare text for the rest."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"


class ConsoleWatcher:
    """Implements ``phases.base.Watcher``. A context manager."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._bar = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}"),
            console=screen,
            transient=True,
            disable=not screen.is_terminal,
        )
        self._task: TaskID | None = None
        self._counts: Counter[tuple[Outcome, str]] = Counter()
        self._figures = ""
        self._total = self._done = 0
        self._next_line = 0.0

    def __enter__(self) -> "ConsoleWatcher":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, phase: str, total: int, done: int) -> None:
        self._counts.clear()
        self._figures = ""
        self._total, self._done = total, done
        self._next_line = time.monotonic() + PLAIN_SECONDS
        self._task = self._bar.add_task(phase, total=total or None, completed=done, counts="")
        if done:
            self._screen.print(f"{phase}: going on after {done} of {total}")

    def advance(self, phase: str, outcome: Outcome, label: str) -> None:
        self._done += 1
        self._counts[outcome, label] += 1
        if self._task is not None:
            self._bar.update(self._task, advance=1, counts=self._text(markup=True))
        if not self._screen.is_terminal and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + PLAIN_SECONDS
            self._line(phase)

    def figures(self, phase: str, step: int, metrics: Mapping[str, float]) -> None:
        """One training step is one item; the bar shows its main figures."""
        self._done = step
        shown = (f"{name} {metrics[key]:.3g}" for key, name in _FIGURES.items() if key in metrics)
        self._figures = f"step {step}  {'  '.join(shown)}"
        if self._task is not None:
            self._bar.update(self._task, completed=step, counts=self._figures)
        if not self._screen.is_terminal and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + PLAIN_SECONDS
            self._line(phase)

    def end(self, phase: str) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
        if self._done:
            self._line(phase)

    def _line(self, phase: str) -> None:
        of = f"/{self._total}" if self._total else ""  # not every total is known
        self._screen.print(f"{phase}: {self._done}{of}  {self._text(markup=False)}".rstrip(), markup=False)

    def _text(self, *, markup: bool) -> str:
        parts = [self._figures] if self._figures else []
        for (outcome, label), count in sorted(self._counts.items(), key=lambda item: (item[0][0], -item[1])):
            text = f"{label} {count}"
            parts.append(f"[{_STYLES[outcome]}]{text}[/]" if markup else text)
        return "  ".join(parts)
