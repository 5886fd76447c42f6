"""Which links of an agent are cut before a script of others, run as root, can follow them, and which are not opened."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.grading.links import cut_links, leads_astray, leads_to_hidden, may_read


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
    assert leads_to_hidden(str(tmp_path / "link"), os.geteuid()) is hidden


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_only_the_agents_own_links_are_cut(tmp_path: Path) -> None:
    for name, owner, target in (("theirs", 0, "/tests"), ("bad", 1000, "/tests"), ("good", 1000, "/etc")):
        (tmp_path / "a/b").mkdir(parents=True, exist_ok=True)
        (tmp_path / "a/b" / name).symlink_to(target)
        os.chown(tmp_path / "a/b" / name, owner, owner, follow_symlinks=False)
    assert cut_links([str(tmp_path)], 1000, 10)
    assert sorted(path.name for path in (tmp_path / "a/b").iterdir()) == ["good", "theirs"]


def test_a_search_ends_when_its_time_is_over(tmp_path: Path) -> None:
    assert not cut_links([str(tmp_path)], 1000, -1)


AGENT = 1000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


@pytest.fixture
def places() -> Iterator[Path]:
    """A folder that anybody may enter, with a file for root only, one for all, and one of the agent's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for file, mode in (("secret", 0o600), ("open", 0o644), ("own", 0o600)):
            (folder / file).write_text(file)
            (folder / file).chmod(mode)
        os.chown(folder / "own", AGENT, AGENT)
        (folder / "closed").mkdir(mode=0o700)
        (folder / "closed" / "open").write_text("x")
        yield folder


def linked(folder: Path, target: str, owner: int = AGENT) -> str:
    (folder / "link").symlink_to(target)
    os.chown(folder / "link", owner, owner, follow_symlinks=False)
    return str(folder / "link")


@needs_root
@pytest.mark.parametrize(
    ("target", "astray"),
    [
        ("secret", True),
        ("closed/open", True),
        ("../{name}/secret", True),
        ("/proc/self/root{folder}/open", True),
        ("/proc/self/environ", True),
        ("/proc/1/environ", True),
        ("/proc/thread-self/fd/1", True),
        ("/dev/stdout", True),
        ("/dev/fd/1", True),
        ("open", False),
        ("own", False),
        ("gone", False),
        ("open/below", False),
        ("link", True),
        ("/proc/version", False),
    ],
)
def test_a_link_of_the_agents_leads_astray_where_the_agent_may_not_read(
    places: Path, target: str, astray: bool
) -> None:
    link = linked(places, target.format(folder=places, name=places.name))
    assert leads_astray(link, AGENT) is astray


@needs_root
def test_links_in_the_middle_count_and_those_of_root_do_not(places: Path) -> None:
    assert leads_astray(f"{linked(places, str(places.parent))}/{places.name}/secret", AGENT)
    (places / "link").unlink()
    assert not leads_astray(linked(places, "secret", owner=0), AGENT)
    assert not leads_astray(str(places / "secret"), AGENT)
    assert not leads_astray("/proc/self/environ", AGENT)


@needs_root
def test_a_second_name_for_a_file_that_the_agent_may_not_read_leads_astray(places: Path) -> None:
    for name, astray in (("secret", True), ("open", False), ("own", False)):
        os.link(places / name, places / f"{name}-too")
        assert leads_astray(str(places / f"{name}-too"), AGENT) is astray


@needs_root
def test_who_may_read_what(places: Path) -> None:
    assert [may_read(str(places / name), AGENT) for name in ("secret", "open", "own", "closed/open", "none")] == [
        *(False, True, True, False, True)
    ]
    os.chown(places / "open", 0, AGENT)
    (places / "open").chmod(0o604)
    assert not may_read(str(places / "open"), AGENT), "the group's rights count for who is in it"
