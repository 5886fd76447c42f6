"""The files of a sandbox: system folders of this machine (or of a root file system) under a layer in memory.

One tmpfs holds everything that is written. Below ``upper/`` are the changes to system folders, shown through overlays;
below ``root/`` is the sandbox's root folder, with an empty home, /var, /opt and so on: of the user's own files, nothing
is visible. With a root file system of one's own (``sandbox.root``) there is a single overlay over all of it.

A user namespace may not change what belongs to users outside it, not even through an overlay. Builds therefore start
with a skeleton in the upper layer: the system folders' folders, and copies of /etc's files, which then belong to the
sandbox's root. What a build leaves as it was is not kept in its layer.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from runner.sandbox.local.inside import accounts, kernel, layer, system, wire
from runner.sandbox.local.inside.space import AGENT, forbid_user_namespaces

BASE = Path("/tmp")
"""Any folder that every machine has: the sandbox's tmpfs is mounted on it, in our own mount namespace."""
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
PINNED = ("dev", "etc", "opt", "run")
HOME, GRADER, PRELOAD = "home/user", "opt/endless-grader", "etc/ld.so.preload"
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
        self._mounts = system.mounted()
        self._base = -1
        self._before: dict[str, layer.Signature] = {}

    def build(self, layers: Sequence[int]) -> None:
        """Make the files and change the root to them. Raises OSError."""
        size = f"size={self._settings['memory_mb']}m,nr_inodes=400000,mode=755"
        kernel.mount("tmpfs", str(BASE), "tmpfs", _FLAGS, size)
        self._base = os.open(BASE, os.O_PATH)
        for name in ("root", "upper", "work", "lower"):
            (BASE / name).mkdir()
        kernel.bind(f"{BASE}/root", f"{BASE}/root")
        shown = self._show()
        self._folders()
        self._hide(self._settings.get("hidden", []))
        if self._settings["building"]:
            for each in shown:
                if each.writable:
                    self._skeleton(each)
        self._write_accounts()
        if self._settings["building"]:
            self._before = layer.survey(self._parts())
        for descriptor in layers:
            layer.unpack(descriptor, BASE)
        for number, each in enumerate(shown):
            self._mount(each, BASE / "work" / str(number))
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
        yield _part("root", base, (*NOT_KEPT, *system.FOLDERS))
        for name in system.FOLDERS:
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
        return BASE / ("upper" if path.partition("/")[0] in system.FOLDERS else "root") / path

    def _show(self) -> list[system.Shown]:
        """The folders to show, with places for them and for their changes."""
        lower = f"/proc/self/fd/{self._lower}"
        if self._whole:
            shown = list(system.whole(lower))
        else:
            shown = list(system.folders(lower, BASE / "lower", self._mounts))
            for name, target in system.links(lower):
                (BASE / "root" / name).symlink_to(target)
        for each in shown:
            (BASE / "root" / each.name).mkdir(parents=True, exist_ok=True)
            self._place(each.name).mkdir(parents=True, exist_ok=True)
        return shown

    def _mount(self, shown: system.Shown, work: Path) -> None:
        target = str(BASE / "root" / shown.name)
        if not shown.writable:
            kernel.bind(shown.lower, target, readonly=True, flags=kernel.REC)
            return
        work.mkdir()
        options = f"lowerdir={shown.lower},upperdir={self._place(shown.name)},workdir={work},userxattr"
        kernel.mount("overlay", target, "overlay", _FLAGS, options)

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

    def _hide(self, patterns: Sequence[str]) -> None:
        """Delete, as an overlay does it, what a root file system of one's own holds and the sandbox is not to see."""
        for pattern in patterns:
            for path in Path(f"/proc/self/fd/{self._lower}").glob(pattern):
                place = self._place(str(path.relative_to(f"/proc/self/fd/{self._lower}")))
                if not os.path.lexists(place):
                    os.mknod(place, stat.S_IFCHR)

    def _write_accounts(self) -> None:
        below = Path(f"/proc/self/fd/{self._lower}")
        texts = accounts.files(below)
        resolver = Path("/etc/resolv.conf") if self._settings["network"] else None
        texts["resolv.conf"] = resolver.read_text() if resolver and resolver.is_file() else ""
        for name, text in texts.items():
            file = self._place(f"etc/{name}")
            file.unlink(missing_ok=True)
            file.write_text(text, encoding="utf-8", errors="surrogateescape")
            file.chmod(0o640 if "shadow" in name else 0o644)

    def _skeleton(self, shown: system.Shown) -> None:
        """Its folders, and /etc's files, made again in the upper layer."""
        for folder, folders, files in os.walk(shown.lower):
            inside = Path(shown.name, Path(folder).relative_to(shown.lower))
            etc, local = inside.parts[:1] == ("etc",), inside.parts[:2] == ("usr", "local")
            if len(inside.parts) >= SKELETON_DEPTH and not etc and not local:
                folders.clear()
            folders[:] = [name for name in folders if self._copy_folder(Path(folder, name), inside / name)]
            for name in files if etc else ():
                if stat.S_ISREG(Path(folder, name).lstat().st_mode):
                    system.copy_file(Path(folder, name), self._place(str(inside / name)))

    def _copy_folder(self, lower: Path, inside: Path) -> bool:
        """True when the copy is to be filled."""
        unseen = str(inside) in {"proc", "sys", "dev", "tmp"}
        if unseen or lower.is_symlink() or not os.access(lower, os.R_OK | os.X_OK):
            return False
        upper = self._place(str(inside))
        if upper.is_char_device():  # hidden
            return False
        upper.mkdir(exist_ok=True)
        upper.chmod(stat.S_IMODE(lower.stat().st_mode) | stat.S_IRWXU)
        return True

    def _mount_rest(self) -> None:
        root = BASE / "root"
        if self._settings["single"]:
            self._pin(root)
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

    def _pin(self, root: Path) -> None:
        """Where the agent owns what root owns, keep the grader and the devices in their places: mount points cannot be
        moved or replaced, but folders that merely hold some can. And no library of the agent's is to be preloaded."""
        for name in PINNED:
            kernel.bind(str(root / name), str(root / name))
        nothing = BASE / "nothing"
        for file in (nothing, root / PRELOAD):
            if not file.exists():
                file.touch()
        kernel.bind(str(nothing), str(root / PRELOAD), readonly=True)


def _part(name: str, base: Path, left_out: Iterable[str]) -> layer.Part:
    return layer.Part(name=name, folder=base / name, left_out=frozenset(f"{name}/{path}" for path in left_out))
