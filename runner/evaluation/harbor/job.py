"""A job in Harbor's own words: its config file, the command that runs it, and the environment that it runs in.

The config holds nothing that changes from one run to the next (a server's port), since Harbor resumes a job only under
an equal one: our own agent reads the model's address from its settings file, Harbor's agents from the environment.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import runner
from runner.domain.errors import RecipeError
from runner.evaluation.harbor import outcomes
from runner.evaluation.harbor.request import SILENT, HarborRun
from runner.evaluation.harbor.tasks import folder_of, task_folders
from runner.llm.pricing import price_of
from runner.schema import Model, Provider
from runner.schema_evaluation import TerminalBench

JOB = "harbor"
"""The job's folder."""
SETTINGS = "agent.json"
CONFIG = "job.json"
LOG = "harbor.log"
AGENT = "runner.evaluation.harbor:EndlessAgent"
NO_KEY = "none"
"""What servers without keys get; clients insist on some key."""
_ROOT = Path(runner.__file__).parent.parent


def job_config(run: HarborRun) -> dict[str, Any]:
    """Harbor's ``JobConfig`` as plain values. Raises RecipeError for what Harbor cannot do."""
    bench = run.bench
    config: dict[str, Any] = {
        "job_name": JOB,
        "jobs_dir": str(run.folder.absolute()),
        "n_attempts": bench.attempts,
        "n_concurrent_trials": bench.concurrency,
        "retry": {"max_retries": run.retries},
        "environment": _environment(bench.environment),
        "agents": [_ours(run) if run.ours else _theirs(run)],
        "datasets": [_dataset(run)],
    }
    if run.ours:
        config["override_error_policy"] = {name: dict(policy) for name, policy in outcomes.POLICY.items()}
    return _merged(config, bench.harbor)


def run_words(config: Path) -> list[str]:
    """What ``harbor`` is told to begin a job."""
    return ["run", "--config", str(config), "--yes"]


def resume_words(job: Path) -> list[str]:
    """What ``harbor`` is told to go on with a job. Trials that are to be done again have to be removed before."""
    return ["job", "resume", "--job-path", str(job)]


def process_environment(run: HarborRun, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of Harbor's process: the model's address for Harbor's agents, and this code for ours."""
    env = {**base, "HARBOR_TELEMETRY": "off", "PYTHONUNBUFFERED": "1"}
    if _ROOT.name not in ("site-packages", "dist-packages"):  # a checkout: what runs here runs there, too
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), base.get("PYTHONPATH", "")]))
    if not run.ours:
        env |= _connection(run.model, base)
    return env


def _environment(name: str) -> dict[str, Any]:
    """``module:Class`` is an environment of one's own, as in Harbor."""
    return {"import_path": name} if ":" in name else {"type": name}


def _dataset(run: HarborRun) -> dict[str, Any]:
    bench = run.bench
    names = {"task_names": list(bench.tasks)} if bench.tasks else {}
    folder = folder_of(bench)
    if folder is not None:
        _require_tasks(bench, folder)
        return {"path": str(folder), **names}
    if "/" in bench.dataset and bench.commit is not None:  # a package of Harbor's hub, whose revisions are its commits
        return {"name": bench.dataset, "ref": bench.commit, **names}
    return {"name": bench.dataset, **({"version": bench.version} if bench.version else {}), **names}


def _require_tasks(bench: TerminalBench, folder: Path) -> None:
    """Raises RecipeError where there is nothing to run."""
    if not folder.is_dir():
        raise RecipeError(f"eval.terminalbench.path is {bench.path!r}, where there is no folder")
    if not task_folders(bench):
        some = bench.tasks and task_folders(replace(bench, tasks=[]))
        what = f"none of {', '.join(bench.tasks)}" if some else "no Harbor task (a folder with a task.toml)"
        raise RecipeError(f"eval.terminalbench: there is {what} in {folder}")


def _ours(run: HarborRun) -> dict[str, Any]:
    settings = str((run.folder / SETTINGS).absolute())
    return {"import_path": AGENT, "model_name": run.model.name, "kwargs": {"settings": settings}}


def _theirs(run: HarborRun) -> dict[str, Any]:
    """An agent that Harbor knows (or ``module:Class``), on the same model; LiteLLM's names say who speaks for it."""
    name = run.harness.agent
    who = {"import_path": name} if ":" in name else {"name": name}
    if name in SILENT:
        return {**who, "kwargs": dict(run.harness.kwargs)}
    model = run.model
    if model.provider is Provider.replay:
        raise RecipeError(f"eval.terminalbench: the harness {name!r} cannot be replayed, only `endless` can")
    provider = "anthropic" if model.provider is Provider.anthropic else "openai"
    key = {"model_api_key_name": model.api_key_env} if model.api_key_env is not None else {}
    known = _terminus(run) if name.startswith("terminus") else {}
    return {**who, "model_name": f"{provider}/{model.name}", **key, "kwargs": {**known, **run.harness.kwargs}}


def _terminus(run: HarborRun) -> dict[str, Any]:
    """What LiteLLM does not know of a model of ours: how much it reads and writes at once, and what that costs."""
    price = price_of(run.model, run.account.prices)
    per_token = {} if price is None else {
        "input_cost_per_token": price.input / 1e6,
        "output_cost_per_token": price.output / 1e6,
    }  # fmt: skip
    agent = run.agent
    info = {"max_input_tokens": agent.context_tokens, "max_output_tokens": agent.turn_tokens, **per_token}
    temperature = run.model.temperature if run.temperature is None else run.temperature
    warmth = {} if temperature is None or run.model.reasoning else {"temperature": temperature}
    return {"model_info": info, **warmth}


def _connection(model: Model, base: Mapping[str, str]) -> dict[str, str]:
    """The variables that SDKs and LiteLLM read a model's address and key from."""
    name = "ANTHROPIC" if model.provider is Provider.anthropic else "OPENAI"
    address = {} if model.base_url is None else {f"{name}_BASE_URL": _with_path(model)}
    key = base.get(model.api_key_env, "") if model.api_key_env is not None else NO_KEY
    return {**address, f"{name}_API_KEY": key}


def _with_path(model: Model) -> str:
    """OpenAI's protocol lives below ``/v1``, which may be left out in a recipe."""
    address = (model.base_url or "").rstrip("/")
    needs_path = model.provider is not Provider.anthropic and not urlsplit(address).path.strip("/")
    return f"{address}/v1" if needs_path else address


def _merged(ours: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """``more`` over ``ours``, table by table."""
    merged = dict(ours)
    for name, value in more.items():
        old = merged.get(name)
        merged[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return merged
