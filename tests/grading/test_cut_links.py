"""Which links of an agent are cut before a script of others, run as root, can follow them."""

import os
import time
from pathlib import Path

import pytest

from runner.grading.script_boot import cut_links, leads_to_hidden


@pytest.mark.parametrize(
    ("target", "hidden"),
    [
        ("/proc/self/fd/3", True),
        ("/dev/fd/3", True),
        ("/proc", True),
        ("/proc/self/root/proc/self/status", True),
        ("/tests", True),
        ("/tests/want.txt", True),
        ("/../tests/./x", True),
        ("/logs/verifier/reward.txt", True),
        ("/testsuite", False),
        ("plain", False),
        ("gone", False),
        ("plain/below", False),
        ("/etc/hostname", False),
        ("loop", True),
        ("x" * 300, True),
    ],
)
def test_a_link_is_judged_by_where_it_leads(tmp_path: Path, target: str, hidden: bool) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to(target)
    assert leads_to_hidden(str(tmp_path / "link")) is hidden


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_only_the_agents_own_links_are_cut(tmp_path: Path) -> None:
    for name, owner, target in (("theirs", 0, "/tests"), ("bad", 1000, "/tests"), ("good", 1000, "/etc")):
        (tmp_path / "a/b").mkdir(parents=True, exist_ok=True)
        (tmp_path / "a/b" / name).symlink_to(target)
        os.chown(tmp_path / "a/b" / name, owner, owner, follow_symlinks=False)
    assert cut_links([str(tmp_path)], 1000, time.monotonic() + 10)
    assert sorted(path.name for path in (tmp_path / "a/b").iterdir()) == ["good", "theirs"]


def test_a_search_ends_when_its_time_is_over(tmp_path: Path) -> None:
    assert not cut_links([str(tmp_path)], 1000, time.monotonic() - 1)
