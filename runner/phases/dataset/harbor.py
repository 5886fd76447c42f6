"""Harbor task folders that need nothing but themselves: ``docker build environment`` makes the image.

The base image's Dockerfile is written into each task's own, so that nobody needs our images. The build context holds
the setup script alone: truth, tests and solution lie outside it, where Harbor keeps them from the agent.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from runner.domain.errors import UserError
from runner.domain.task import AGENT_HOME, AGENT_USER, Task
from runner.sandbox import keepers
from runner.store.tasks import write_task

_FILES = Path(__file__).with_name("harbor_files")

_SETUP = f"""
# The task.
USER root
WORKDIR /
COPY setup.sh /.endless-setup/setup.sh
RUN DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8 HOME=/root bash /.endless-setup/setup.sh \\
 && rm -rf /.endless-setup \\
 && find {AGENT_HOME} -user root -group root -exec chown -h {AGENT_USER}:{AGENT_USER} {{}} +
"""
_SERVICES = """
COPY start.sh entry.sh /etc/endless/
ENTRYPOINT ["/bin/bash", "/etc/endless/entry.sh"]
"""
_AGENT = f"""
USER {AGENT_USER}
WORKDIR {AGENT_HOME}
CMD ["/bin/bash"]
"""


def export_harbor(tasks: Iterable[Task], folder: Path, *, base_dockerfile: str) -> int:
    """Write a folder a task below ``folder``; returns how many. Raises StorageError, UserError for an unusable id.

    ``base_dockerfile`` is the text of our base image's Dockerfile.
    """
    count = 0
    for task in tasks:
        # An imported task's own test.sh stays as it is.
        extra = {} if task.verifier_script else _verifier(task.keep_ports)
        if task.environment.context is None:
            extra["environment/Dockerfile"] = dockerfile(task, base_dockerfile)
            if task.environment.start:
                extra["environment/entry.sh"] = _file("entry.sh")
        write_task(folder / folder_name(task.id), task, extra=extra)
        count += 1
    return count


def dockerfile(task: Task, base: str) -> str:
    """The Dockerfile of a task of ours: the base image's steps, then the task's."""
    services = _SERVICES if task.environment.start else ""
    return base.rstrip() + "\n" + _SETUP + services + _AGENT


def _verifier(keep_ports: Sequence[int]) -> dict[str, str]:
    files = {"tests/test.sh": _file("test.sh"), "tests/verify.py": _file("verify.py")}
    if keep_ports:
        test = "/tests/test_final_state.py"
        files["tests/test.sh"] = files["tests/test.sh"].replace(test, " ".join([test, *map(str, keep_ports)]))
        files["tests/keep.py"] = Path(keepers.__file__).read_text(encoding="utf-8")
    return files


def folder_name(task_id: str) -> str:
    """A task's id as a folder's name. Raises UserError for an id that cannot be one."""
    if not task_id or task_id.startswith(".") or {"/", "\0"} & set(task_id):
        raise UserError(f"the task id {task_id!r} cannot be a folder's name: it is empty, hidden or holds a slash")
    return task_id


def _file(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8")
