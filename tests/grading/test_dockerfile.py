"""What a Dockerfile says of the image that it makes."""

import pytest

from runner.grading.dockerfile import last_user, last_workdir


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("FROM a\n", "/"),
        ("FROM a\nWORKDIR /app\nRUN x", "/app"),
        ("FROM a\nWORKDIR /app\nWORKDIR sub/x\n", "/app/sub/x"),
        ("FROM a AS b\nWORKDIR /build\nFROM c\n", "/"),
        ("FROM a\nENV HOME_DIR=/srv/x B=2\nWORKDIR $HOME_DIR/y\n", "/srv/x/y"),
        ("FROM a\nENV PLACE /srv\nworkdir ${PLACE}\n", "/srv"),
        ("FROM a\nWORKDIR /app\nRUN python3 << 'EOF'\nfrom os import path\nWORKDIR /evil\nEOF\n", "/app"),
    ],
)
def test_programs_start_where_the_last_stage_says(text: str, folder: str) -> None:
    assert last_workdir(text) == folder


def test_a_heredoc_changes_no_user() -> None:
    assert last_user("FROM a\nUSER user:1\nRUN <<END\nfrom x import y\nUSER root\nEND\n") == "user"
    assert last_user("FROM a\nRUN a \\\n  && b\nUSER app\n") == "app"
