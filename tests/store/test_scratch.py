"""Temporary folders: gone when their block ends, and soon after a kill -9."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runner.share import share_dir
from runner.store.scratch import PREFIX, abandoned, remove_abandoned, scratch

OWNER = """
import sys, time
from runner.store.scratch import scratch
with scratch("owner") as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.glob(f"{PREFIX}*")]


def test_a_folder_is_gone_after_its_block_even_when_it_fails(temporary: Path) -> None:
    def fail() -> None:
        with scratch("x") as folder:
            (folder / "file").touch()
            assert folder.parent == temporary
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert left(temporary) == []


def test_what_lives_stays_and_what_was_killed_goes_with_the_next(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=share_dir("configs").parent
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert abandoned() == []
        with scratch("other"):
            assert (folder / "file").exists()
        assert not remove_abandoned(folder)
        owner.kill()
    assert abandoned() == [folder]
    with scratch("next"):
        assert not folder.exists()


def test_composing_that_was_killed_leaves_nothing_for_long(temporary: Path) -> None:
    """kill -9 in the middle of ``endless plan`` (Hydra composes for half a second)."""
    from runner.compose import compose

    script = (
        "import os, signal, runner.compose.hydra_main as h\nh._link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)"
    )
    code = f"{script}\nfrom runner.compose import compose; compose('quickstart')"
    subprocess.run([sys.executable, "-c", code], check=False, cwd=share_dir("configs").parent)
    assert len(left(temporary)) == 1
    compose("quickstart")
    assert left(temporary) == []


def test_others_folders_of_a_similar_name_are_not_touched(temporary: Path) -> None:
    (temporary / "endless-mine").mkdir()
    (temporary / f"{PREFIX}a-file").touch()
    (temporary / f"{PREFIX}a-link").symlink_to(temporary)
    with scratch("x"):
        pass
    assert sorted(path.name for path in temporary.iterdir()) == ["endless-mine", f"{PREFIX}a-file", f"{PREFIX}a-link"]
