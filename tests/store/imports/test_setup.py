"""Apptainer definitions as setup scripts: the scripts are run, not looked at."""

import subprocess
from pathlib import Path

import pytest
from support.foreign_tasks import DEFINITION, write

from runner.domain.errors import TaskFormatError
from runner.store.imports.definition import parse
from runner.store.imports.setup import Setup, render

HEAD = "Bootstrap: docker\nFrom: ubuntu:22.04\n\n"


def setup(tmp_path: Path, definition: str, **files: str) -> Setup:
    (tmp_path / "task").mkdir(exist_ok=True)
    return render(parse(definition), write(tmp_path / "task", files))


def run(made: Setup) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", made.script], capture_output=True, text=True, check=False, timeout=20)


def test_a_sample_of_the_papers_is_read_whole(tmp_path: Path) -> None:
    parsed = parse(DEFINITION)
    assert parsed.header == {"bootstrap": "localimage", "from": "./ubuntu_22.04.sif"}
    assert [section.name for section in parsed.sections] == ["post", "environment", "runscript", "labels"]
    made = setup(tmp_path, DEFINITION)
    assert made.notes == ()
    assert "%percent is no section in here" in made.script
    assert subprocess.run(["bash", "-n"], input=made.script, text=True, check=False).returncode == 0


def test_post_runs_under_sh_and_ends_at_the_first_error(tmp_path: Path) -> None:
    out = tmp_path / "out"
    body = f'%post\n    [ -z "$BASH_VERSION" ] || exit 9\n    echo one > {out}\n    false\n    echo two > {out}\n'
    assert run(setup(tmp_path, HEAD + body)).returncode == 1
    assert out.read_text() == "one\n"


def test_post_may_name_its_shell_and_read_its_input(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = setup(tmp_path, HEAD + f"%post -c /bin/bash\n    a=(x y); cat\n    echo ${{a[1]}} > {out}\n")
    assert run(made).returncode == 0
    assert out.read_text() == "y\n"


def test_a_user_who_is_there_may_be_made_again_and_others_may_not_be_skipped(tmp_path: Path) -> None:
    assert run(setup(tmp_path, HEAD + "%post\n useradd -m -s /bin/bash root && groupadd root\n")).returncode == 0
    assert run(setup(tmp_path, HEAD + "%post\n useradd --no-such-option nobody-like-it 2>/dev/null\n")).returncode != 0


def test_copied_files_arrive_as_apptainer_puts_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    files = {"data/a.txt": "a\nENDLESS\n", "data/b.bin": "no end of line", "run me.sh": "#!/bin/sh\n", "c.txt": "c\n"}
    body = (
        f"%files\n    data {out}/all\n    'run me.sh' {out}/run\n    *.txt {out}/many/\n    # no\n    c.txt {out}/d/e\n"
    )
    write(tmp_path / "task", files)
    (tmp_path / "task/run me.sh").chmod(0o755)
    done = run(setup(tmp_path, HEAD + body))
    assert (done.returncode, done.stderr) == (0, "")
    found = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert found == {
        "all/a.txt": b"a\nENDLESS\n",
        "all/b.bin": b"no end of line",
        "run": b"#!/bin/sh\n",
        "many/c.txt": b"c\n",
        "d/e": b"c\n",
    }
    assert (out / "run").stat().st_mode & 0o100


@pytest.mark.parametrize(
    ("definition", "note"),
    [
        ("Bootstrap: docker\nFrom: python:3.11\n%post\n true\n", "made for docker: python:3.11"),
        (HEAD + "%post\n apt-get install -y -q jq\n", "building it needs a network"),
        (HEAD + "%environment\n export DB=/srv/db\n export USER=user\n", "does not read by itself: export DB=/srv/db"),
        (HEAD + "%startscript\n nginx\n", "%startscript is left out"),
    ],
)
def test_what_is_not_the_same_is_said(tmp_path: Path, definition: str, note: str) -> None:
    assert any(note in said for said in setup(tmp_path, definition).notes)


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("%post\n true\n", "names no Bootstrap"),
        ("hello\n%post\n", "no 'Key: value'"),
        ("Bootstrap: yum\nMirrorURL: x\n", "only bases like Ubuntu or Debian"),
        (HEAD + "%post\n a\nBootstrap: docker\nFrom: b\n%files from x\n a\n", "several build stages"),
        (HEAD + "%setup\n touch /etc/x\n", "runs on the building machine"),
        (HEAD + "%arguments\n A=1\n", "a template"),
        (HEAD + "%appinstall x\n true\n", "apps"),
        (HEAD + "%files\n /etc/hosts /etc/hosts\n", "a file of the building machine"),
        (HEAD + "%files\n ../x /x\n", "a file of the building machine"),
        (HEAD + "%files\n gone.txt /x\n", "not in the task's folder"),
        (HEAD + "%files\n a b c\n", "not a source and a destination"),
        (HEAD + "%files\n 'a /b\n", "cannot be read"),
        (HEAD + "%files\n test_final_state.py /srv/\n", "which the agent must not see"),
        (HEAD + "%files\n . /srv/\n", "which the agent must not see"),
    ],
)
def test_what_no_setup_script_can_do_is_refused_with_the_reason(tmp_path: Path, definition: str, reason: str) -> None:
    with pytest.raises(TaskFormatError, match=reason):
        setup(tmp_path, definition, **{"test_final_state.py": "x", "task.json": "{}"})


def test_a_copied_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "task").mkdir()
    (tmp_path / "task/data").symlink_to(tmp_path / "secret")
    with pytest.raises(TaskFormatError, match="a link out of the task's folder"):
        setup(tmp_path, HEAD + "%files\n data /data\n")
