"""Why episodes fail: our definitions.

The paper (arXiv 2601.16443) reports loop failures, turn limits and command diversity without publishing how it counts
them, so its figures are reference lines whose definition is unknown, never the same measurement. These are ours; the
thresholds in ``code`` are fields of ``AnalysisSettings`` (runner/analysis/settings.py), with their defaults here.

**Failure mode.** Each failed episode has exactly one: the first of this list that holds. Shares are of failed graded
episodes; infra is apart.

1. ``infra``: infrastructure failed; there is no reward.
2. ``protocol_error``: the episode ended because too many replies in a row could not be used, or it ran into a limit
   and at least ``invalid_share`` (half) of its replies could not be used.
3. ``loop``: see below. A loop that runs into a limit is a loop: the limit is how it ended, not why.
4. ``context_full``: no room for another reply.
5. ``time_limit``: the episode's wall-clock time was up.
6. ``turn_limit``: all turns were used, none of them to say done.
7. ``wrong_answer``: the agent said done, and the verifier found the final state wrong.

**Loop.** A cycle of 1 to ``loop_cycle`` (5) commands that repeats without a break, with the same results, at least
``loop_repeats`` (3) times. The mode is ``loop`` when the episode was still in the loop as it ran into its limit, or
when the loop took at least ``loop_share`` (half) of its commands. A loop that the agent left again, and did more work
after, is a detour; so are some repeated checks before done.

* The same command: spelt the same but for white space, quoting, comments, the order of flags where it cannot matter,
  times to the second, and random temporary names; where it fails, numbers in temporary names, too.
* The same result: exit code and output the same but for times, durations and process numbers. A new result is progress.
* Where the cycle waits (``sleep``), or its commands fail and differ in their numbers only, it takes ``loop_patience``
  (5) rounds: waiting for a service and trying another port are good work for a while.
* Replies that could not be used neither are nor break a loop.

**Failed command.** It was stopped at its time limit, or its exit code is not 0; but not exit code 1 of a program that
answers a question with it (``grep``, ``diff``, ``test``).

**Command diversity after a failure.** The share of distinct commands (spelt the same as above) among the next k =
``diversity_window`` (10) commands after the first failed command of an episode, fewer where it has fewer left; the mean
over the episodes that have at least two such commands. Passing and failing episodes apart.

**Recovery.** Of all failed commands: the share after which the very next command succeeds, and any later one.

**Commands used.** The programs named by the commands, in pipelines, lists, loops, substitutions and behind ``sudo``,
``env``, ``xargs`` and the like.

**To success.** Over passing episodes: turns (replies), tokens written, tokens read and written, seconds.
"""

from runner.analysis.failures.facts import EpisodeFacts, Recovery, facts_of
from runner.analysis.failures.loops import Loop, find_loops
from runner.analysis.failures.modes import FailureMode, classify
from runner.analysis.failures.summary import (
    Diversity,
    FailureSummary,
    ModeCount,
    ProgramCount,
    ToSuccess,
    summarise,
    summarise_facts,
)

__all__ = [
    "summarise",
    "summarise_facts",
    "classify",
    "facts_of",
    "find_loops",
    "FailureMode",
    "FailureSummary",
    "ModeCount",
    "Diversity",
    "ProgramCount",
    "ToSuccess",
    "Recovery",
    "EpisodeFacts",
    "Loop",
]
