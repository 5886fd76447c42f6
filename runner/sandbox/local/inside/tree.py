"""The files of a sandbox: system folders of this machine (or of a root file system) under a layer in memory.

One tmpfs holds everything that is written. Below ``upper/`` are the changes to system folders, shown through overlays;
below ``root/`` is the sandbox's root folder, with an empty home, /var, /opt and so on: of the user's own files, nothing
is visible. With a root file system of one's own (``sandbox.root``) there is a single overlay over all of it.

A user namespace may not change what belongs to users outside it, not even through an overlay. Builds therefore start
with a skeleton in the upper layer: the system folders' folders, and copies of /etc's files, which then belong to the
sandbox's root. What a build leaves as it was is not kept in its layer.
"""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from runner.sandbox.local.inside import accounts, kernel, layer, wire
from runner.sandbox.local.inside.space import AGENT, forbid_user_namespaces

BASE = Path("/tmp")
"""Any folder that every machine has: the sandbox's tmpfs is mounted on it, in our own mount namespace."""
SYSTEM = ("usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
EMPTY: tuple[str, ...] = (
    "home",
    "media",
    "mnt",
    "opt",
    "run/lock",
    "srv",
    "sys",
    "var/cache",
    "var/lib",
    "var/log",
    "var/mail",
)
EMPTY += ("var/opt", "var/spool/cron", "dev/pts", "proc", "root", "run/endless", "home/user")
WORLD = ("tmp", "var/tmp", "dev/shm")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
HOME, GRADER = "home/user", "opt/endless-grader"
SKELETON_DEPTH = 3
"""How deep below a system folder a build may add files (further below /etc and /usr/local)."""
NOT_KEPT = ("dev", "proc", "sys", "run/endless", GRADER, "etc/hosts", "etc/hostname", "etc/resolv.conf")
_FLAGS = kernel.NOSUID | kernel.NODEV


class Tree:
    """Made before the change of user, built by the sandbox's first process."""

    def __init__(self, settings: wire.Message) -> None:
        """Opens the folders to show, while they can be reached. Raises OSError."""
        self._settings = settings
        self._whole = settings["root"] != "/"
        self._lower = os.open(settings["root"], os.O_PATH | os.O_DIRECTORY)
        self._grader = os.open(settings["grader"], os.O_PATH) if settings["grader"] else -1
        self._base = -1
        self._before: dict[str, layer.Signature] = {}

    def build(self, layers: Sequence[int]) -> None:
        """Make the files and change the root to them. Raises OSError."""
        size = f"size={self._settings['memory_mb']}m,nr_inodes=400000,mode=755"
        kernel.mount("tmpfs", str(BASE), "tmpfs", _FLAGS, size)
        self._base = os.open(BASE, os.O_PATH)
        for name in ("root", "upper", "work"):
            (BASE / name).mkdir()
        kernel.bind(f"{BASE}/root", f"{BASE}/root")
        overlays = dict(self._overlays())
        self._folders()
        if self._settings["building"]:
            for lower, upper in overlays.items():
                self._skeleton(Path(lower), upper)
        self._write_accounts()
        if self._settings["building"]:
            self._before = layer.survey(self._parts())
        for descriptor in layers:
            layer.unpack(descriptor, BASE)
        for number, (lower, upper) in enumerate(overlays.items()):
            self._overlay(lower, upper, BASE / "work" / str(number))
        self._mount_rest()
        kernel.pivot(f"{BASE}/root")

    def pack(self, descriptor: int) -> None:
        """Write the changes made since ``build``. Raises OSError."""
        layer.pack(descriptor, self._parts(), self._before)

    def _parts(self) -> Iterator[layer.Part]:
        """What a layer keeps."""
        base = Path(f"/proc/self/fd/{self._base}")
        if self._whole:
            yield _part("upper/all", base, NOT_KEPT)
            return
        yield _part("root", base, (*NOT_KEPT, *SYSTEM))
        for name in SYSTEM:
            if (base / "upper" / name).is_dir():
                below = [path.partition("/")[2] for path in NOT_KEPT if path.startswith(f"{name}/")]
                yield _part(f"upper/{name}", base, below)

    def give_home(self) -> None:
        """Give the agent what root has left in the agent's home."""
        if self._settings["single"]:
            return
        for folder, folders, files in os.walk(f"/{HOME}"):
            for path in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):  # noqa: PTH118
                status = os.lstat(path)
                if status.st_uid == status.st_gid == 0:
                    os.lchown(path, AGENT, AGENT)
                    if not stat.S_ISLNK(status.st_mode):
                        os.chmod(path, stat.S_IMODE(status.st_mode))  # noqa: PTH101 (chown clears set-id bits)

    def _place(self, path: str) -> Path:
        """Where a path of the sandbox is prepared, before the overlays are mounted."""
        if self._whole:
            return BASE / "upper/all" / path
        return BASE / ("upper" if path.partition("/")[0] in SYSTEM else "root") / path

    def _overlays(self) -> Iterator[tuple[str, str]]:
        """(folder below, its name in ``upper``), with the links between system folders made on the way."""
        lower = f"/proc/self/fd/{self._lower}"
        if self._whole:
            (BASE / "upper/all").mkdir()
            yield lower, "all"
            return
        for name in SYSTEM:
            folder, shown = Path(lower, name), BASE / "root" / name
            if folder.is_symlink():
                shown.symlink_to(folder.readlink())
            elif folder.is_dir():
                shown.mkdir()
                (BASE / "upper" / name).mkdir()
                yield str(folder), name

    def _overlay(self, lower: str, upper: str, work: Path) -> None:
        work.mkdir()
        shown = BASE / "root" if self._whole else BASE / "root" / upper
        options = f"lowerdir={lower},upperdir={BASE}/upper/{upper},workdir={work},userxattr"
        kernel.mount("overlay", str(shown), "overlay", _FLAGS, options)

    def _folders(self) -> None:
        wanted = (HOME, "proc", "dev/pts", "sys", "run/endless", "etc") if self._whole else EMPTY
        for path in (*wanted, GRADER):
            self._place(path).mkdir(parents=True, exist_ok=True)
        for path in ("tmp", "dev/shm") if self._whole else WORLD:
            self._place(path).mkdir(parents=True, exist_ok=True)
            self._place(path).chmod(0o1777)
        if not self._whole:
            self._place("root").chmod(0o700)
            self._place("var/run").symlink_to("/run")
            self._place("var/lock").symlink_to("/run/lock")
        if not self._settings["single"]:
            os.chown(self._place(HOME), AGENT, AGENT)

    def _write_accounts(self) -> None:
        below = Path(f"/proc/self/fd/{self._lower}")
        texts = accounts.files(below)
        resolver = below / "etc/resolv.conf" if self._settings["network"] else None
        texts["resolv.conf"] = resolver.read_text() if resolver and resolver.is_file() else ""
        for name, text in texts.items():
            file = self._place(f"etc/{name}")
            file.unlink(missing_ok=True)
            file.write_text(text, encoding="utf-8", errors="surrogateescape")
            file.chmod(0o640 if "shadow" in name else 0o644)

    def _skeleton(self, lower: Path, name: str) -> None:
        """Folders below ``lower``, and /etc's files, made again in the upper layer."""
        for folder, folders, files in os.walk(lower):
            inside = Path(name if name != "all" else "", os.path.relpath(folder, lower))
            inside = Path(*[part for part in inside.parts if part != "."])
            deep = inside.parts[:1] == ("etc",) or inside.parts[:2] == ("usr", "local")
            if len(inside.parts) >= SKELETON_DEPTH + (name == "all") and not deep:
                folders.clear()
            folders[:] = [each for each in folders if self._copy_folder(Path(folder, each), inside / each)]
            if inside.parts[:1] == ("etc",):
                for each in files:
                    self._copy_file(Path(folder, each), inside / each)

    def _copy_folder(self, lower: Path, inside: Path) -> bool:
        """True when the copy is to be filled."""
        unseen = str(inside) in {"proc", "sys", "dev", "tmp"}
        if unseen or lower.is_symlink() or not os.access(lower, os.R_OK | os.X_OK):
            return False
        upper = self._place(str(inside))
        upper.mkdir(exist_ok=True)
        upper.chmod(stat.S_IMODE(lower.stat().st_mode) | stat.S_IRWXU)
        return True

    def _copy_file(self, lower: Path, inside: Path) -> None:
        if not stat.S_ISREG(lower.lstat().st_mode):
            return
        upper = self._place(str(inside))
        if os.access(lower, os.R_OK):
            shutil.copy2(lower, upper)
        else:  # a lock, or a secret of this machine: its place is taken by an empty file
            upper.touch(mode=0o600)

    def _mount_rest(self) -> None:
        root = BASE / "root"
        if self._grader >= 0:
            kernel.bind(f"/proc/self/fd/{self._grader}", str(root / GRADER), readonly=True)
        private = root / "run/endless"
        kernel.mount("tmpfs", str(private), "tmpfs", _FLAGS, "size=64m,mode=700")
        for name in filter(lambda name: Path("/dev", name).exists(), DEVICES):
            (root / "dev" / name).touch()
            kernel.bind(f"/dev/{name}", str(root / "dev" / name))
        links = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
        for name, target in links.items():
            (root / "dev" / name).unlink(missing_ok=True)
            (root / "dev" / name).symlink_to(target)
        kernel.mount("devpts", str(root / "dev/pts"), "devpts", kernel.NOSUID, "newinstance,ptmxmode=0666,mode=0620")
        kernel.mount("proc", str(root / "proc"), "proc", _FLAGS | kernel.NOEXEC)
        if not self._settings["single"]:
            forbid_user_namespaces()


def _part(name: str, base: Path, left_out: Iterable[str]) -> layer.Part:
    return layer.Part(name=name, folder=base / name, left_out=frozenset(f"{name}/{path}" for path in left_out))
