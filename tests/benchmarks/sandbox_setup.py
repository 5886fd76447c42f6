"""What the sandbox benchmark needs before it can measure: the tools, their virtual environments, one image for all."""

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docker import DockerClient
from docker.errors import ImageNotFound

SWE_REX = "swe-rex==1.4.0"


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One row of the table."""

    name: str
    driver: str
    """The module in ``peers/``."""
    requirement: str = ""
    """What pip installs for it, in a virtual environment of its own; empty: this project's own Python runs it."""
    also: tuple[str, ...] = ()
    """What it imports without declaring it."""
    python: tuple[int, int] = (3, 11)
    """The lowest Python it takes."""
    backend: str = ""
    """Of ours."""
    steady: bool = False
    """Whether it is measured in a steady run."""

    @property
    def is_ours(self) -> bool:
        return self.driver == "ours"


TOOLS = (
    Tool(name="ours: docker", driver="ours", backend="docker", steady=True),
    Tool(name="ours: apptainer", driver="ours", backend="apptainer", steady=True),
    Tool(name="ours: local", driver="ours", backend="local", steady=True),
    Tool(name="docker SDK 7", driver="docker_sdk", steady=True),
    Tool(name="mini-swe-agent 2.4.6", driver="mini_swe_agent", requirement="mini-swe-agent==2.4.6"),
    Tool(name="swe-rex 1.4.0", driver="swe_rex", requirement=SWE_REX, also=("aiohttp",)),
    Tool(name="terminal-bench 0.2.18", driver="terminal_bench", requirement="terminal-bench==0.2.18", python=(3, 12)),
    Tool(name="harbor 0.26.0", driver="harbor", requirement="harbor==0.26.0", python=(3, 12)),
    Tool(name="inspect-ai 0.3.285", driver="inspect_ai", requirement="inspect-ai==0.3.285"),
)


class Missing(Exception):
    """A tool cannot be set up here; the words go into the table."""


def python_for(tool: Tool, cache: Path, python312: str | None) -> str:
    """The Python that has the tool installed; installs it first, once. Raises Missing."""
    if not tool.requirement:
        return sys.executable
    folder = cache / "+".join([tool.requirement, *tool.also])
    python = str(folder / "bin" / "python")
    if not (folder / ".ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        base = _base_python(tool, python312)
        _quietly([base, "-m", "venv", str(folder)])
        _quietly(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", tool.requirement, *tool.also]
        )
        (folder / ".ready").touch()
    return python


def _base_python(tool: Tool, python312: str | None) -> str:
    """A Python that starts and is new enough; 3.13 is too new for some of them."""
    for python in filter(None, (sys.executable, python312, "python3.12")):
        test = f"import sys; sys.exit(not {tool.python} <= sys.version_info[:2] <= (3, 12))"
        if (
            shutil.which(python)
            and not subprocess.run([python, "-c", test], capture_output=True, check=False).returncode
        ):
            return python
    raise Missing(f"needs Python {'.'.join(map(str, tool.python))}: name one with --python312")


def _quietly(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"could not be installed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")


# tmux is terminal-bench's, the rest swe-rex's. Without tmux the image is made all the same.
_DOCKERFILE = """FROM {base}
USER root
WORKDIR /
ENTRYPOINT []
RUN command -v tmux || (apt-get update && apt-get install -y --no-install-recommends tmux) || true
COPY swe-rex /opt/swe-rex
RUN printf '#!/bin/sh\\nPYTHONPATH=/opt/swe-rex exec python3 -m swerex.server --port "${{SWEREX_PORT:-8000}}" "$@"\\n' \
    >/usr/local/bin/swerex-remote && chmod 755 /usr/local/bin/swerex-remote
"""


def make_image(client: DockerClient, base: str, *, bridge: bool, with_swe_rex: bool) -> str:
    """The image that every tool starts: ``base``, which has Python and pytest, and what some need inside."""
    key = hashlib.sha256(f"{_DOCKERFILE}{base}{SWE_REX}{with_swe_rex}".encode()).hexdigest()[:12]
    tag = f"endless-benchmark:{key}"
    try:
        client.images.get(tag)
    except ImageNotFound:
        with tempfile.TemporaryDirectory(prefix="endless-benchmark-") as folder:
            context = _context(Path(folder), base, _python_of(client, base) if with_swe_rex else "")
            network = None if bridge else "host"
            labels = {"endless": "image"}
            client.images.build(
                fileobj=context, custom_context=True, tag=tag, network_mode=network, labels=labels, rm=True
            )
    return tag


def _python_of(client: DockerClient, image: str) -> str:
    words = ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    said: bytes = client.containers.run(image, words, entrypoint="python3", network_mode="none", remove=True)
    return said.decode().strip()


def _context(folder: Path, base: str, python: str) -> io.BytesIO:
    """A build context. swe-rex is installed on this machine, so that the build needs no package index."""
    (folder / "Dockerfile").write_text(_DOCKERFILE.format(base=base))
    (folder / "swe-rex").mkdir()
    if python:
        where = ["--target", str(folder / "swe-rex"), "--python-version", python, "--only-binary=:all:"]
        _quietly([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *where, SWE_REX])
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(folder, arcname=".")
    buffer.seek(0)
    return buffer
