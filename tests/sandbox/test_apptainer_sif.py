"""The base image as one .sif file: the same sandboxes, and the same verdicts, as from a folder."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.domain.task import Environment
from runner.grading.verify import verify
from runner.sandbox.apptainer import ApptainerBackend
from runner.sandbox.base import Backend, Image, Role, Sandbox
from runner.schema import Sandbox as Settings

pytestmark = [pytest.mark.apptainer, pytest.mark.live, pytest.mark.timeout(1200)]  # the file takes minutes to compress

SETUP = """
set -e
rm /usr/bin/jq
mv /usr/bin/less /usr/bin/more-or-less 2>/dev/null || cp /bin/cat /usr/bin/more-or-less
echo secret >/srv/secret && chmod 600 /srv/secret
mkdir -p /opt/tool /home/user/work && echo 42 >/home/user/work/answer
useradd --system --no-create-home service && chown service /opt/tool
echo 'a line' >>/etc/motd
"""
STATE = """
ls -A / /srv /opt /home/user; stat -c '%U %G %a %n' /opt/tool /srv/secret /home/user/work /etc/shadow /tmp
command -v jq more-or-less python3 git; cat /etc/motd; cat /srv/secret 2>&1; ls -A /dev; id; getent passwd service
dpkg --version | head -n 1; wc -l </var/lib/dpkg/status
"""
RIGHT = "def test_answer():\n    assert open('/home/user/work/answer').read() == '43\\n'\n"


@pytest.fixture(scope="module")
def sif_backend(apptainer_settings: Settings, apptainer_cache: Path) -> Iterator[ApptainerBackend]:
    backend = ApptainerBackend(replace(apptainer_settings, sif=True), apptainer_cache, "tests")
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def sif_image(sif_backend: ApptainerBackend) -> Image:
    return built(sif_backend)


def built(backend: Backend) -> Image:
    image = backend.build(Environment(setup=SETUP), timeout=120)
    assert isinstance(image, Image), image
    return image


def said(sandbox: Sandbox, command: str) -> str:
    return sandbox.run(command, timeout=30).output.decode("utf-8", "replace")


def test_the_base_image_is_one_file(sif_image: Image, apptainer_cache: Path) -> None:
    (file,) = (apptainer_cache / "apptainer" / "base").glob("*.sif")
    assert file.is_file()
    assert not list((apptainer_cache / "apptainer" / "base").glob("*.partial"))


def test_what_an_agent_sees_is_as_from_a_folder(
    sif_backend: ApptainerBackend, sif_image: Image, apptainer_backend: ApptainerBackend
) -> None:
    with sif_backend.start(sif_image) as ours, apptainer_backend.start(built(apptainer_backend)) as theirs:
        seen = said(ours, STATE)
        assert seen == said(theirs, STATE)
        assert "more-or-less" in seen
        assert "/jq" not in seen
        assert "singularity" not in seen
        whole = (
            "find / -xdev -path /proc -prune -o -path /sys -prune -o -printf '%y %m %p\\n' 2>/dev/null | sort | md5sum"
        )
        assert said(ours, whole) == said(theirs, whole)


def test_verdicts_are_as_from_a_folder(
    sif_backend: ApptainerBackend, sif_image: Image, apptainer_backend: ApptainerBackend
) -> None:
    for backend, image in ((sif_backend, sif_image), (apptainer_backend, built(apptainer_backend))):
        with backend.start(image) as sandbox:
            assert verify(sandbox, backend.grader, RIGHT, timeout=60).reason == "assertion"
        with backend.start(image) as sandbox:
            said(sandbox, "echo 43 >work/answer; sleep 600 & disown")
            verdict = verify(sandbox, backend.grader, RIGHT, timeout=60)
            assert verdict.reason == "passed", verdict


def test_the_agent_is_an_ordinary_user_in_files_of_its_own(sif_backend: ApptainerBackend, sif_image: Image) -> None:
    with sif_backend.start(sif_image) as sandbox:
        assert said(sandbox, "touch /etc/x /usr/x 2>/dev/null || echo no; echo mine >f; cat f; whoami") == (
            "no\nmine\nuser\n"
        )
        done = sandbox.exec(["/bin/sh", "-c", "echo x >>/etc/motd; cat /srv/secret"], role=Role.ROOT, timeout=20)
        assert done.output == b"secret\n"
    with sif_backend.start(sif_image) as sandbox:
        assert said(sandbox, "cat /etc/motd | grep -cx x; ls f").startswith("0\n")
