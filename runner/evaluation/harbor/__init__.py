"""Evaluation through Harbor (https://harborframework.com): published benchmarks, and any folder of Harbor tasks.

``run_harbor`` runs Harbor as a program of its own, with a Python that has it; ``agent.py`` is what Harbor loads there.
Nothing else here needs Harbor, which needs Python 3.12.
"""

from typing import TYPE_CHECKING, Any

from runner.evaluation.harbor.request import HarborRun
from runner.evaluation.harbor.results import Trial
from runner.evaluation.harbor.run import HarborResult, run_harbor

if TYPE_CHECKING:
    from runner.evaluation.harbor.agent import EndlessAgent

__all__ = ["run_harbor", "HarborRun", "HarborResult", "Trial", "EndlessAgent"]


def __getattr__(name: str) -> Any:
    """``EndlessAgent``, imported when Harbor asks for it. Raises ImportError where there is no Harbor."""
    if name == "EndlessAgent":
        from runner.evaluation.harbor.agent import EndlessAgent

        return EndlessAgent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
