"""Dockerfiles built with BuildKit through ``docker buildx``: the base image, and imported tasks' own.

The Python SDK knows only the classic builder, which lacks heredocs; of 100 public Harbor tasks 60 need them.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

from runner.domain.errors import EngineError, EngineGone, MissingRequirement
from runner.sandbox.base import BuildFailure
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.trouble import infrastructure

LOG_BYTES = 16_000
_WITH_US = ("setpriv", "--pdeathsig", "TERM")
"""However abruptly we end, the build does too (that is, with the thread that waits for it)."""


def buildx_missing() -> str:
    """Why BuildKit cannot be used here, or ""."""
    if shutil.which("docker") is None:
        return "the docker command is not installed (package docker-ce-cli, or docker-cli)"
    found = subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False)
    return (
        "" if found.returncode == 0 else "docker has no buildx plugin (package docker-buildx-plugin, or docker-buildx)"
    )


@dataclass(frozen=True, kw_only=True)
class DockerfileBuild:
    """One image to make from a build context."""

    tag: str
    timeout: float
    """Seconds."""
    labels: Mapping[str, str]
    args: Mapping[str, str]
    network: str | None
    """None: the engine's default."""
    env: Sequence[str]
    """Names of variables handed over as build arguments; engines do not store the proxies among them."""

    def run(self, engine: Engine, context: IO[bytes]) -> BuildFailure | None:
        """Build the tar archive ``context``; None is success. Podman builds through its own API, which knows
        heredocs from Podman 4.8 on. Raises MissingRequirement without BuildKit, EngineError for the world's fault."""
        code, log = self._through_api(engine, context) if engine.podman else self._buildx(engine, context)
        if code == 0:
            return None
        if not engine.answers():
            raise EngineGone(f"The container engine at {engine.address} went away in mid-build.", engine.answers)
        cause = infrastructure(log, network=self.network != "none")
        if code is not None and cause:
            advice = "Check the network (sandbox.build_network), the registry and the disk."
            raise EngineError(f"The image {self.tag} could not be built: {cause}. {advice}")
        return BuildFailure(log=log, timed_out=code is None)

    def _buildx(self, engine: Engine, context: IO[bytes]) -> tuple[int | None, str]:
        if missing := buildx_missing():
            raise MissingRequirement(f"A Dockerfile cannot be built: {missing}.")
        # `default` is the engine's own builder: others do not see its images.
        argv = ["docker", "buildx", "build", "--builder", "default", "--progress", "plain", "--load", "--tag", self.tag]
        for name, value in self.labels.items():
            argv += ["--label", f"{name}={value}"]
        argv += ["--network", self.network] if self.network is not None else []
        for name, value in self.args.items():
            argv += ["--build-arg", f"{name}={value}"]
        for name in self.env:
            argv += ["--build-arg", name] if name in os.environ else []  # by name: the value stays out of `ps`
        with _spooled(context) as stdin:
            return _run([*argv, "-"], stdin, engine.address, self.timeout)

    def _through_api(self, engine: Engine, context: IO[bytes]) -> tuple[int | None, str]:
        deadline = time.monotonic() + self.timeout
        env = {name: os.environ[name] for name in self.env if name in os.environ}
        log = ""
        with engine.trouble("build an image"):
            answer = engine.client.api.build(
                fileobj=context,
                custom_context=True,
                tag=self.tag,
                buildargs={**self.args, **env},
                labels=dict(self.labels),
                network_mode=self.network,
                rm=True,
                forcerm=True,
                decode=True,
            )
            for message in answer:
                log = (log + str(message.get("stream") or message.get("error") or ""))[-LOG_BYTES:]
                if "error" in message:
                    return 1, log
                if time.monotonic() > deadline:
                    return None, log
        return 0, log


@contextmanager
def _spooled(context: IO[bytes]) -> Iterator[IO[bytes]]:
    """The archive as a real file, which a subprocess can read."""
    with TemporaryFile() as file:
        shutil.copyfileobj(context, file)
        file.seek(0)
        yield file


def _run(argv: Sequence[str], stdin: IO[bytes], address: str, timeout: float) -> tuple[int | None, str]:
    """Exit code (None: out of time) and the log's end. The plugin is a child of docker, so the group is ended."""
    env = {**os.environ, "DOCKER_HOST": address, "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
    with TemporaryFile() as log:
        with subprocess.Popen(
            [*_with_us(), *argv], stdin=stdin, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True
        ) as process:
            try:
                code: int | None = process.wait(timeout=timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        return code, _tail(log)


def _with_us() -> Sequence[str]:
    """Nothing where there is no such program, which is on systems other than Linux."""
    return _WITH_US if shutil.which(_WITH_US[0]) else ()


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - LOG_BYTES))
    return log.read().decode("utf-8", "replace")
