"""Gate 1: a taxonomy draw becomes an instruction, its hidden truth and (if asked for) a reference solution."""

from collections.abc import Mapping
from dataclasses import dataclass

from runner.phases.generate.leak import leaked_line
from runner.phases.generate.reasons import Reason
from runner.phases.generate.repair import Complaint, Reject
from runner.phases.generate.reply import sections
from runner.schema import Taxonomy


@dataclass(frozen=True, kw_only=True)
class Description:
    """What gate 1 yields."""

    instruction: str
    truth: str
    solution: str


def described(taxonomy: Taxonomy, labels: Mapping[str, str]) -> list[dict[str, str]]:
    """The drawn labels with their dimensions' descriptions, in the taxonomy's order, for the prompt."""
    return [
        {"name": name, "value": labels[name], "description": dimension.description}
        for name, dimension in taxonomy.dimensions.items()
        if dimension is not None
    ]


def judge(reply: str, *, oracle: bool) -> Description | Complaint | Reject:
    """Read a reply. Raises ReplyError."""
    found = sections(reply, ("instruction", "truth", "solution") if oracle else ("instruction", "truth"))
    description = Description(
        instruction=found["instruction"].strip() + "\n", truth=found["truth"], solution=found.get("solution", "")
    )
    leaked = leaked_line(description.instruction, description.truth)
    if leaked is not None:
        return Reject(Reason.LEAK, leaked)
    return description
