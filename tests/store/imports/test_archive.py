"""Archives that would do harm are refused whole."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from runner.domain.errors import UserError
from runner.store.imports.archive import unpack


def tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size) if member.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, target, size
    return entry


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/passwd"),
        member("../out"),
        member("a/../../out"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.SYMTYPE, "../../etc/passwd"),
        member("hard", tarfile.LNKTYPE, "/etc/passwd"),
        member("device", tarfile.CHRTYPE),
        member("pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda entry: f"{entry.name}-{entry.type.decode()}",
)
def test_a_tar_member_that_leads_outside_is_named(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    (tmp_path / "to").mkdir()
    with pytest.raises(UserError, match=f"unsafe member, '{bad.name}'.*nothing was imported"):
        unpack(tar(tmp_path / "a.tar", bad), tmp_path / "to")
    assert not list(tmp_path.glob("out*"))


def test_writing_through_a_link_of_the_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    members = member("a", tarfile.SYMTYPE, ".."), member("a/out", size=1)
    with pytest.raises(UserError, match="unsafe member"):
        unpack(tar(tmp_path / "a.tar", *members), tmp_path / "to")
    assert not (tmp_path / "out").exists()


def test_a_link_inside_the_archive_is_fine(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    unpack(tar(tmp_path / "a.tar", member("a", size=1), member("b", tarfile.SYMTYPE, "a")), tmp_path / "to")
    assert (tmp_path / "to/b").read_text() == "x"


@pytest.mark.parametrize(("name", "mode"), [("../out", 0o100644), ("/out", 0o100644), ("link", 0o120777)])
def test_a_zip_member_that_leads_outside_is_named(tmp_path: Path, name: str, mode: int) -> None:
    (tmp_path / "to").mkdir()
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(UserError, match=f"unsafe member, '{name}'"):
        unpack(tmp_path / "a.zip", tmp_path / "to")
    assert not list((tmp_path / "to").iterdir())


def test_a_cut_or_endless_archive_is_the_users_trouble(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    whole = tar(tmp_path / "a.tar", member("a", size=5000)).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:3000])
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(tmp_path / "cut.tar", tmp_path / "to")
    huge = member("big", size=9 << 30)
    (tmp_path / "huge.tar").write_bytes(huge.tobuf() + b"\0" * 1024)
    with pytest.raises(UserError, match="nothing was imported"):
        unpack(tmp_path / "huge.tar", tmp_path / "to")
