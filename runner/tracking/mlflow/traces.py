"""Episodes as finished MLflow traces: a root span for the episode, one span a turn.

Traces are written through ``TracingClient`` with ids derived from the run and the episode, and not through
``mlflow.start_span``: that one needs a process-wide tracking address, hides failures, and gives a new id each time,
so that publishing again would double every trace. An episode keeps durations only, so the trace ends when it is
published and its turns are laid out backwards from there.
"""

import base64
import hashlib
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runner.domain.episode import Episode, Outcome, Turn
from runner.tracking.secrets import Secrets

_PREVIEW = 300
_NAME = 60
_SECOND = 1_000_000_000
_LINK_LIMIT = 100
"""Traces that MLflow links to a run in one request."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where traces go: the experiment, the phase's run and the run above it."""

    uri: str
    experiment_id: str
    run_id: str
    parent_id: str


def write(episodes: Sequence[Episode], place: Place, secrets: Secrets) -> None:
    """Log the episodes; those already there stay as they are, and one copy of each. Raises what MLflow raises."""
    from mlflow.entities import Span
    from mlflow.tracing.client import TracingClient
    from mlflow.tracking import MlflowClient

    if not episodes:
        return
    client = TracingClient(place.uri)
    now, head = time.time_ns(), _shared_head(episodes)
    for episode in episodes:
        info = _info(episode, place, secrets, now, head)
        client.start_trace(info)
        spans = [Span.from_dict(span) for span in _spans(episode, info.trace_id, secrets, now)]
        client.log_spans(place.experiment_id, spans)
    ids = [_trace_id(episode, place) for episode in episodes]
    for start in range(0, len(ids), _LINK_LIMIT):
        MlflowClient(place.uri).link_traces_to_run(ids[start : start + _LINK_LIMIT], place.parent_id)


def _trace_id(episode: Episode, place: Place) -> str:
    return f"tr-{hashlib.sha256(f'{place.run_id}/{episode.id}'.encode()).hexdigest()[:32]}"


def _duration(episode: Episode) -> int:
    """Nanoseconds: the episode's own clock, or its turns' when they add up to more."""
    return int(max(episode.seconds, sum(_seconds(turn) for turn in episode.turns)) * _SECOND)


def _seconds(turn: Turn) -> float:
    return turn.model_seconds + turn.command_seconds


def _info(episode: Episode, place: Place, secrets: Secrets, now: int, head: int) -> Any:
    """The trace's row in MLflow's list of traces."""
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    return TraceInfo(
        trace_id=_trace_id(episode, place),
        trace_location=TraceLocation.from_experiment_id(place.experiment_id),
        request_time=(now - _duration(episode)) // 1_000_000,
        execution_duration=_duration(episode) // 1_000_000,
        state=TraceState.ERROR if episode.outcome is Outcome.INFRA else TraceState.OK,
        request_preview=_short(secrets.text(f"{episode.id}: {episode.prompt[head:]}"), _PREVIEW),
        response_preview=_short(secrets.text(_answered(episode)), _PREVIEW),
        trace_metadata={"mlflow.sourceRun": place.run_id, "mlflow.trace.tokenUsage": json.dumps(_usage(episode.turns))},
        tags={
            "mlflow.traceName": episode.id,
            "endless.task": episode.task_id,
            "endless.sample": str(episode.sample),
            "endless.outcome": str(episode.outcome),
            "endless.end": str(episode.end),
        },
        assessments=_assessments(episode, place, secrets),
    )


def _assessments(episode: Episode, place: Place, secrets: Secrets) -> list[Any]:
    """The verifier's word as an assessment, which the UI shows as a column; infra has none."""
    from mlflow.entities import AssessmentSource, Feedback

    if episode.reward is None:
        return []
    solved = Feedback(
        name="solved",
        value=episode.outcome is Outcome.PASS,
        source=AssessmentSource(source_type="CODE", source_id="verifier"),
        trace_id=_trace_id(episode, place),
        rationale=secrets.text(episode.verdict) or None,
    )
    solved.assessment_id = "a-" + _trace_id(episode, place).removeprefix("tr-")  # the same when published again
    return [solved]


def _shared_head(episodes: Sequence[Episode]) -> int:
    """Characters of whole paragraphs that begin every prompt: the harness's own text, no use in a list of tasks."""
    paragraphs = [episode.prompt.split("\n\n")[:-1] for episode in episodes]
    shared = itertools.takewhile(lambda same: len(set(same)) == 1, zip(*paragraphs, strict=False))
    return sum(len(same[0]) + 2 for same in shared)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _answered(episode: Episode) -> str:
    return f"{episode.outcome} · {episode.end} after {len(episode.turns)} turns · {episode.verdict}".rstrip(" ·")


def _usage(turns: Sequence[Turn]) -> dict[str, int]:
    read = sum(turn.input_tokens for turn in turns)
    written = sum(turn.output_tokens for turn in turns)
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def _spans(episode: Episode, trace_id: str, secrets: Secrets, now: int) -> Iterator[dict[str, Any]]:
    """The root span, then the turns, as MLflow's span dictionaries."""
    start = now - _duration(episode)
    error = secrets.text(episode.verdict) if episode.outcome is Outcome.INFRA else ""
    yield _span(
        trace_id,
        number=0,
        name=episode.id,
        kind="AGENT",
        times=(start, now),
        inputs={"prompt": episode.prompt},
        outputs={"outcome": str(episode.outcome), "end": str(episode.end), "verdict": episode.verdict},
        attributes={"task": episode.task_id, "sample": episode.sample, "turns": len(episode.turns)},
        secrets=secrets,
        error=error,
    )
    seen = episode.prompt
    for number, turn in enumerate(episode.turns, start=1):
        end = start + int(_seconds(turn) * _SECOND)
        yield _turn(turn, trace_id, number, seen if number > 1 else "", (start, end), secrets)
        start, seen = end, turn.observation


def _turn(
    turn: Turn, trace_id: str, number: int, seen: str, times: tuple[int, int], secrets: Secrets
) -> dict[str, Any]:
    """One turn: in, what the agent saw (nothing on the first turn: the prompt is on the root); out, what it did."""
    attributes: dict[str, Any] = {
        "exit_code": turn.exit_code,
        "timed_out": turn.timed_out or None,
        "invalid": turn.invalid or None,
        "model_seconds": round(turn.model_seconds, 3),
        "command_seconds": round(turn.command_seconds, 3),
        "mlflow.chat.tokenUsage": _usage([turn]),
    }
    return _span(
        trace_id,
        number=number,
        name=_short(secrets.text(_headline(turn, number)), _NAME),
        kind="LLM",
        times=times,
        inputs={"observation": seen} if seen else None,
        outputs={"reply": turn.reply, "command": turn.command} if turn.command is not None else {"reply": turn.reply},
        attributes={k: v for k, v in attributes.items() if v is not None},
        secrets=secrets,
    )


def _headline(turn: Turn, number: int) -> str:
    """Names the span so that the timeline alone tells the story."""
    if turn.invalid:
        return f"{number}: unparsable reply"
    return f"{number}: done" if turn.command is None else f"{number}: $ {' '.join(turn.command.split())}"


def _span(
    trace_id: str,
    *,
    number: int,
    name: str,
    kind: str,
    times: tuple[int, int],
    inputs: Any,
    outputs: Any,
    attributes: dict[str, Any],
    secrets: Secrets,
    error: str = "",
) -> dict[str, Any]:
    """MLflow's version 3 span dictionary; ids are base64, attribute values JSON."""
    hexadecimal = trace_id.removeprefix("tr-")
    own = {"mlflow.traceRequestId": trace_id, "mlflow.spanType": kind, "mlflow.spanOutputs": outputs}
    if inputs is not None:
        own["mlflow.spanInputs"] = inputs
    return {
        "trace_id": base64.b64encode(bytes.fromhex(hexadecimal)).decode(),
        "span_id": _span_id(hexadecimal, number),
        "parent_span_id": None if number == 0 else _span_id(hexadecimal, 0),
        "name": name,
        "start_time_unix_nano": times[0],
        "end_time_unix_nano": times[1],
        "status": {"code": "STATUS_CODE_ERROR" if error else "STATUS_CODE_OK", "message": error},
        "attributes": {k: json.dumps(secrets.value(v), ensure_ascii=False) for k, v in (attributes | own).items()},
        "events": [],
    }


def _span_id(trace: str, number: int) -> str:
    return base64.b64encode(hashlib.sha256(f"{trace}/{number}".encode()).digest()[:8]).decode()
