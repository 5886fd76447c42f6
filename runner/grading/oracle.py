"""Run a task's reference solution as the agent would."""

from runner.sandbox.base import ExecResult, Sandbox


def run_oracle(sandbox: Sandbox, solution: str, *, timeout: float) -> ExecResult:
    """Run a script in a subshell of the agent's shell, so that its ``exit`` and ``set -e`` end only itself.

    ``timeout`` in seconds. Raises EngineError.
    """
    return sandbox.run(f"(\n{solution}\n)", timeout=timeout)
