"""The one door to grading: a task knows whether a pytest file or an imported script decides; nobody else asks."""

from runner.domain.errors import EngineError
from runner.domain.task import AGENT_HOME, Task
from runner.grading.dockerfile import last_workdir
from runner.grading.harbor_verifier import verify_script
from runner.grading.verify import Reason, Verdict, verify
from runner.sandbox.base import Backend, Image, Role, Sandbox


def grade(task: Task, sandbox: Sandbox, backend: Backend, *, role: Role = Role.ROOT) -> Verdict:
    """The task's verdict on a sandbox, under the task's own time limit. The agent's processes are ended first, but for
    the services that the task keeps.

    ``role`` is for pytest files alone (see ``verify``); scripts run as root. Raises EngineError.
    """
    seconds = task.limits.verifier_seconds
    if task.verifier_script:
        files, cwd = task.test_files, workdir(task)
        return verify_script(sandbox, backend.grader, task.verifier_script, timeout=seconds, files=files, cwd=cwd)
    return verify(
        sandbox,
        backend.grader,
        task.final_test,
        timeout=seconds,
        files=task.test_files,
        keep_ports=task.keep_ports,
        role=role,
    )


def settle(task: Task, verdict: Verdict, backend: Backend, image: Image) -> Verdict:
    """The verdict itself, unless it is the verifier's fault that there is no reward. Raises EngineError then.

    Call it when the graded sandbox is closed: it opens another one, in which no agent has run, to see whether the
    verifier leaves a reward there. If it does, the agent's work is why it did not: that is a fail.
    """
    if verdict.reason is not Reason.NO_REWARD:
        return verdict
    with backend.start(image) as untouched:
        control = grade(task, untouched, backend)
    if control.reason is Reason.NO_REWARD:
        end = control.log[-300:]
        raise EngineError(
            f"The verifier of task {task.id} leaves no reward even where no agent has been: {end}. Mend it."
        )
    return verdict


def workdir(task: Task) -> str:
    """Where a task's programs start."""
    context = task.environment.context
    if context is None:
        return AGENT_HOME
    return last_workdir((context / "Dockerfile").read_text("utf-8", "replace"))
