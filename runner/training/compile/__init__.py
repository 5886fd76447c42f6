"""Recipe -> the exact command of OpenRLHF's trainers, checked against its own parser, with the arithmetic shown.

``compile_ppo`` and ``compile_sft`` are what the phases call; ``training_plan`` is what ``endless plan`` shows, and
``check_trainer`` is asked before a run starts.
"""

from runner.training.compile.command import Command, Deviation, Facts
from runner.training.compile.parser import FlagTable, installed_flags, known_flags
from runner.training.compile.plan import Counts, TrainingPlan, check_trainer, training_plan
from runner.training.compile.ppo import compile_ppo
from runner.training.compile.sft import compile_sft

__all__ = [
    "compile_ppo",
    "compile_sft",
    "Facts",
    "Command",
    "Deviation",
    "check_trainer",
    "training_plan",
    "TrainingPlan",
    "Counts",
    "FlagTable",
    "installed_flags",
    "known_flags",
]
