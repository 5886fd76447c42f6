"""Environments turned into images: the base image, our own setup scripts on top of it, imported build contexts."""

import hashlib
import io
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from runner.domain.errors import EngineError, MissingRequirement
from runner.domain.task import AGENT_HOME, AGENT_USER, Environment, is_private
from runner.sandbox.advice import OTHER_BASE, STOPPED
from runner.sandbox.base import BuildFailure
from runner.sandbox.docker.archive import archive, folder_archive
from runner.sandbox.docker.attached import Attached
from runner.sandbox.docker.containers import build_options, created
from runner.sandbox.docker.dockerfile import LOG_BYTES, DockerfileBuild
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.labels import IMAGE, MARK, OWNER, RUN
from runner.sandbox.docker.trouble import infrastructure
from runner.sandbox.docker.uses import Uses
from runner.sandbox.reading import collect_tail
from runner.schema import Sandbox as Settings
from runner.share import share_dir

BASE_SECONDS = 1800.0
"""The base image may have to fetch packages over a slow line; it is built once."""
FINISH_SECONDS = 60.0
KILLED = 137
"""The exit code of a program that SIGKILL ended."""
_PROCEDURE = "1"
"""Part of every tag: raise it when the way images are made changes."""
_SCRIPTS = "/.endless-setup"
# What the exported Dockerfile does after the script: root's leftovers in the agent's home become the agent's.
_FINISH = f"""
rm -rf {_SCRIPTS}
find {AGENT_HOME} -user root -group root -exec chown -h {AGENT_USER}:{AGENT_USER} {{}} +
"""


class Images:
    """Builds images and finds built ones; a tag names its content."""

    def __init__(
        self, engine: Engine, settings: Settings, run: str, uses: Uses, on_build: Callable[[], None] = lambda: None
    ) -> None:
        """``uses`` is told of each image that is wanted, ``on_build`` is called after each that was built."""
        self._engine, self._settings, self._run = engine, settings, run
        self._uses, self._on_build = uses, on_build
        self._base_lock = threading.Lock()
        self._stopped: set[str] = set()

    def tag(self, environment: Environment) -> str:
        """What an environment's image is called, built or not."""
        if environment.context is not None:
            with _context(environment.context) as files:
                return _tag("task", _digest(files))
        base, _ = self._base()
        self._uses.note(base)
        return _tag("task", base, environment.setup, environment.start)

    def build(self, tag: str, environment: Environment, timeout: float) -> BuildFailure | None:
        """Build an environment's image; None is success. Raises EngineError, MissingRequirement."""
        if environment.context is not None:
            with _context(environment.context) as files:
                failure = self._dockerfile(tag, timeout).run(self._engine, files)
        else:
            failure = self._build_setup(self._ensure_base(), tag, environment.setup, timeout)
        if failure is None:
            self._on_build()
        return failure

    def remove(self, tag: str) -> None:
        """Forget an image. One that is gone already, or still in use, is left alone. Raises EngineError."""
        if remove(self._engine, tag):
            self._uses.forget(tag)

    def found(self, tag: str) -> bool:
        """Whether an image is there; from now on it counts as used just now. Raises EngineError."""
        from docker.errors import NotFound

        self._uses.note(tag)  # before looking, so that nobody who tidies up removes it just then
        with self._engine.trouble("look for an image"):
            try:
                self._engine.client.images.get(tag)
            except NotFound:
                return False
        return True

    def _base(self) -> tuple[str, str]:
        """The base image's tag and its Dockerfile."""
        text = (share_dir("sandboxes") / "base" / "Dockerfile").read_text(encoding="utf-8")
        return _tag("base", text, self._settings.base_image), text

    def _ensure_base(self) -> str:
        """The base image's tag, built if need be, by one thread."""
        tag, text = self._base()
        with self._base_lock:
            if not self.found(tag):
                self._build_base(text, tag)
        return tag

    def _build_base(self, text: str, tag: str) -> None:
        context = io.BytesIO(archive({"Dockerfile": text.encode()}, mode=0o644))
        failure = self._dockerfile(tag, BASE_SECONDS, {"BASE": self._settings.base_image}).run(self._engine, context)
        if failure is not None:
            end = failure.log.strip()[-1000:]
            base = self._settings.base_image
            raise MissingRequirement(f"The base image (FROM {base}) does not build:\n{end}\n{OTHER_BASE}")

    def _dockerfile(self, tag: str, timeout: float, args: Mapping[str, str] | None = None) -> DockerfileBuild:
        settings = self._settings
        return DockerfileBuild(
            tag=tag,
            timeout=timeout,
            args=args or {},
            network=settings.build_network or self._engine.build_network,
            env=tuple(settings.build_env),
            labels={MARK: IMAGE, RUN: self._run},
        )

    def _build_setup(self, base: str, tag: str, setup: str, timeout: float) -> BuildFailure | None:
        """Run the script in a container and keep the result. Unlike a Dockerfile's RUN, this can be limited, timed
        and, after a kill -9, reaped; and the variables handed to it stay out of the image."""
        with created(self._engine, base, self._run, **build_options(self._engine, self._settings)) as container:
            with self._engine.trouble("start a build"):
                container.put_archive("/", archive({f"{_SCRIPTS[1:]}/setup.sh": setup.encode()}))
                container.start()
            name = str(container.id)
            # One stream, since the engine keeps no order between two.
            code, log, late = self._execute(name, ["bash", "-c", f"exec bash {_SCRIPTS}/setup.sh 2>&1"], timeout)
            if code != 0 or late:
                if not late:
                    self._refuse_stopped(name, tag, code)
                return self._judge(code, log, late)
            code, log, late = self._execute(name, ["bash", "-ec", _FINISH], FINISH_SECONDS)
            if code != 0 or late:
                return BuildFailure(log=f"after the setup script: {log}", timed_out=late)
            with self._engine.trouble("keep a built image"):
                container.kill()
                repository, _, version = tag.partition(":")
                container.commit(repository, version, message=tag, changes=self._changes())
        return None

    def _execute(self, container: str, argv: list[str], seconds: float) -> tuple[int | None, str, bool]:
        """Exit code, the log's end, and whether time ran out."""
        settings = self._settings
        env = {name: os.environ[name] for name in settings.build_env if name in os.environ}
        env |= {"DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", "LANG": "C.UTF-8"}
        attached = Attached(self._engine, container, argv, user="0:0", cwd="/", env=env, stdin=False)
        try:
            log, late = collect_tail(attached, seconds, LOG_BYTES)
            code = None if late else attached.exit_code()
        finally:
            attached.close()
        return code, log.decode("utf-8", "replace"), late

    def _refuse_stopped(self, container: str, tag: str, code: int | None) -> None:
        """Raise EngineError where a script's container ended under it, the first time: its daemon was restarted. Or the
        script ends the container itself, being root there: then it does so again."""
        if tag not in self._stopped and self._has_stopped(container, code):
            self._stopped.add(tag)
            raise EngineError(f"A container was stopped from outside in mid-build. {STOPPED}")

    def _has_stopped(self, container: str, code: int | None) -> bool:
        """The engine may know it a moment later than the script has ended."""
        for pause in (0.0, 0.2, 0.4, 0.8) if code in (None, KILLED) else (0.0,):
            time.sleep(pause)
            with self._engine.trouble("look at a build"):
                if not self._engine.client.api.inspect_container(container)["State"]["Running"]:
                    return True
        return code is None

    def _judge(self, code: int | None, log: str, late: bool) -> BuildFailure:
        """A failed script is the script's fault, unless its log shows otherwise. Raises EngineError."""
        cause = "" if late else infrastructure(log, network=self._settings.build_network != "none")
        if cause:
            raise EngineError(f"A setup script failed on infrastructure: {cause}. Check the network and the disk.")
        return BuildFailure(log=log if late else f"{log.rstrip()}\n(exit code {code})", timed_out=late)

    def _changes(self) -> list[str]:
        """The image's own settings. Containers inherit labels, so the build container's must not stay alive in it."""
        marks = f'LABEL {MARK}="{IMAGE}" {RUN}="{self._run}" {OWNER}=""'
        return [f"WORKDIR {AGENT_HOME}", f"USER {AGENT_USER}", "ENTRYPOINT []", 'CMD ["/bin/bash"]', marks]


def remove(engine: Engine, image: str) -> bool:
    """Remove an image by its tag or id; returns whether it is gone, which one in use is not. Raises EngineError."""
    from docker.errors import APIError, NotFound

    with engine.trouble("remove an image"):
        try:
            engine.client.images.remove(image)
        except NotFound:
            return True
        except APIError as error:
            if error.status_code != 409:
                raise
            return False
    return True


def _context(folder: Path) -> AbstractContextManager[IO[bytes]]:
    """An imported task's build context, without what is hidden."""
    dockerfile = (folder / "Dockerfile").read_text(encoding="utf-8", errors="replace")
    return folder_archive(folder, lambda path: not is_private(path.parts[0], dockerfile))


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def _tag(kind: str, *content: str) -> str:
    digest = hashlib.sha256("\0".join([_PROCEDURE, *content]).encode()).hexdigest()
    return f"endless-{kind}:{digest[:20]}"
