"""Task folders as others write them: Harbor's, and the paper's native ones (after its public samples)."""

import json
from pathlib import Path

DEFINITION = """\
Bootstrap: localimage
From: ./ubuntu_22.04.sif

%post
    # Create user and set up home directory
    useradd -m -s /bin/bash user
    chown -R user:user /home/user

    mkdir -p /home/user/monitoring
    echo "one\\ntwo" > /home/user/monitoring/dash.txt
    cat <<EOF > /home/user/monitoring/alert.log
CPU usage at 75%
%percent is no section in here, and neither is % memory
EOF
    chown user:user /home/user/monitoring/alert.log
    chmod 664 /home/user/monitoring/alert.log

%environment
    chmod 755 /home/user

    # Set user environment
    export HOME=/home/user
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    export USER=user

%runscript
    echo "Container is ready for testing."

%labels
    Author Somebody
    Task "Alert analysis"
"""
INITIAL = """\
import os, pwd

def test_user_and_files():
    assert pwd.getpwnam("user").pw_dir == "/home/user"
    assert os.stat("/home/user/monitoring/alert.log").st_uid == pwd.getpwnam("user").pw_uid
    assert "75%" in open("/home/user/monitoring/alert.log").read()
    assert open("/home/user/monitoring/dash.txt").read() == "one\\ntwo\\n"
"""
FINAL = "def test_done():\n    assert open('/home/user/report.txt').read().strip() == '75%'\n"
TASK = {"description": "Write the CPU usage to /home/user/report.txt.", "truth": "75%", "name": "task_000000_3bb4337a"}


def native(folder: Path, definition: str = DEFINITION, **files: str) -> Path:
    """A task folder of the paper's own; ``files`` are added, or left out where they are empty."""
    contents = {
        "task.json": json.dumps(TASK, indent=4),
        "container.def": definition,
        "test_initial_state.py": INITIAL,
        "test_final_state.py": FINAL,
        "solutions/model_summary.json": json.dumps({"num_success": 3}),
    }
    return write(folder, contents | files)


def harbor(folder: Path, **files: str) -> Path:
    """A Harbor task of schema 0.1 whose only verifier is a test.sh with data beside it."""
    contents = {
        "task.toml": 'version = "0.1"\n[metadata]\ncategory = "logs"\ndifficulty = "easy"\ntags = ["awk"]\n',
        "instruction.md": "Write right to /home/user/answer.",
        "environment/Dockerfile": "FROM ubuntu:22.04\nRUN mkdir -p /home/user && chmod 777 /home/user\n"
        "WORKDIR /home/user\nCOPY . /ctx\n",
        "environment/task.json": json.dumps({"truth": "right", "complexity": "1 command"}),
        "tests/test.sh": "#!/bin/bash\n[ $PWD = /home/user ] || exit 1\n"
        "cmp -s answer /tests/want.txt && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
        "tests/want.txt": "right\n",
        "solution/solve.sh": "echo right > /home/user/answer\n",
    }
    return write(folder, contents | files)


def write(folder: Path, contents: dict[str, str]) -> Path:
    """Write the files that are not empty."""
    for name, text in contents.items():
        if text:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder
