"""The grader's own Python: an interpreter, its libraries, its loader and pytest in one read-only folder.

A verdict must not depend on any file that the agent, or the task's image, could have changed. So every sandbox gets
this folder mounted (or copied in, read-only and root-owned), and the grader runs from it alone. It is built once per
interpreter and pytest version, beside its final place, and renamed when whole: a crash leaves nothing half-made.
"""

import compileall
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.domain.errors import EngineError, MissingRequirement
from runner.sandbox.advice import advised

DISTRIBUTIONS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
PACKAGES = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
"""pytest and all it needs on Python 3.11 and later; every one is pure Python."""

SITE = "site"
"""The folder below the mount that holds ``PACKAGES``."""

LEFT_OUT = frozenset(
    {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "idle_test", "tkinter", "turtledemo"}
    | {"ensurepip", "lib2to3", "pydoc_data", "sitecustomize.py", "lib-dynload", "LICENSE.txt"}
)
EXTENSIONS_LEFT_OUT = ("_test", "_tkinter", "xx", "_xx", "_ctypes_test")
LEXERS = frozenset({"__init__.py", "_mapping.py", "python.py", "diff.py"})
"""The two Pygments lexers that pytest may ask for; the other five hundred stay out."""

OPENED_LATE = ("libgcc_s.so.1", "libnss_files.so.2", "libresolv.so.2")
"""Libraries that glibc opens by name at run time, which ``ldd`` therefore does not list."""


def ensure_runtime(cache: Path) -> Path:
    """The runtime's folder below ``cache``, built if it is not there yet (some seconds, once).

    Safe under concurrent callers and kill -9. Raises MissingRequirement when this interpreter cannot be carried
    (statically linked, or without pytest) and EngineError when the files cannot be written.
    """
    final = cache / "grader" / _key()
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with _locked(final.with_suffix(".lock")):
            if not final.is_dir():
                _build_beside(final)
    except OSError as error:
        raise EngineError(advised(f"The grader's Python could not be prepared in {final.parent}: {error}")) from error
    return final


def python_argv(mount: Path) -> list[str]:
    """The start of a command line that runs the runtime mounted at ``mount``; ``-c`` or a script follows.

    Naming the loader keeps the image's own loader, its libraries and its list of libraries out; ``-I -B -S`` keep out
    the environment, the working directory and every site folder.
    """
    loader = [f"{mount}/lib/loader", "--inhibit-cache", "--library-path", f"{mount}/lib"]
    return [*loader, f"{mount}/bin/python3", "-I", "-B", "-S", "-X", "utf8"]


def _key() -> str:
    """Names the runtime by all that goes into it, without reading the 40 MB."""
    binary = _interpreter()
    status = binary.stat()
    parts = [sys.version, str(binary), str(status.st_size), str(status.st_mtime_ns), str(_stdlib())]
    parts += [f"{name} {_version(name)}" for name in DISTRIBUTIONS]
    parts.append(Path(__file__).read_text(encoding="utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingRequirement(
            f"{distribution} is not installed here, and the grader carries it along: pip install {distribution}"
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(lock.fileno())  # its time is the runtime's last use
        yield


def _build_beside(final: Path) -> None:
    """Build under a temporary name and rename. Only the lock's holder gets here, so older leftovers are litter."""
    partial = final.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    _copy_stdlib(partial)
    _copy_libraries(partial)
    _copy_packages(partial / SITE)
    _compile(partial)
    _open_to_all(partial)
    partial.rename(final)


def _interpreter() -> Path:
    """The real binary behind a virtual environment's link."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()


def _stdlib() -> Path:
    return Path(os.__file__).resolve().parent


def _copy_stdlib(target: Path) -> None:
    library = target / sys.platlibdir / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    shutil.copytree(_stdlib(), library, ignore=_unneeded, ignore_dangling_symlinks=True)
    (library / "lib-dynload").mkdir()
    for module in _extension_modules():
        shutil.copy2(module, library / "lib-dynload" / module.name)
    (target / "bin").mkdir()
    shutil.copy2(_interpreter(), target / "bin" / "python3")


def _unneeded(folder: str, names: list[str]) -> set[str]:
    out = {name for name in names if name in LEFT_OUT or name.startswith("config-") or name.endswith(".pyc")}
    if Path(folder).parts[-2:] == ("pygments", "lexers"):
        out |= set(names) - LEXERS
    return out


def _extension_modules() -> list[Path]:
    """The standard library's compiled modules. Some builds have almost none: theirs are inside the binary."""
    versioned = f"{sys.platlibdir}/python{sys.version_info[0]}.{sys.version_info[1]}/lib-dynload"
    places = [_stdlib() / "lib-dynload", Path(sys.base_exec_prefix) / versioned]
    places.append(Path(str(sysconfig.get_config_var("DESTSHARED") or "/nonexistent")))
    found = {file.name: file for place in reversed(places) for file in place.glob("*.so")}
    return [file for name, file in sorted(found.items()) if not name.startswith(EXTENSIONS_LEFT_OUT)]


def _copy_libraries(target: Path) -> None:
    """Every shared library of the binary and its modules. Where two share a name, the binary's own comes first."""
    folder = target / "lib"
    folder.mkdir(exist_ok=True)
    linked = dict(_linked([_interpreter()]))
    if "loader" not in linked:
        raise MissingRequirement(f"{_interpreter()} is statically linked: run with a Python of your system or of uv")
    for name, path in _linked(_extension_modules()):
        linked.setdefault(name, path)
    libc = next((path for name, path in linked.items() if name.startswith("libc.")), linked["loader"])
    for name in OPENED_LATE:
        if (libc.parent / name).exists():
            linked.setdefault(name, libc.parent / name)
    for name, path in linked.items():
        shutil.copy2(path, folder / name)
        _search_path_last(folder / name)
    _search_path_last(target / "bin" / "python3")


def _linked(files: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """(name to look it up by, file) of each library that ``ldd`` reports; the dynamic loader is called ``loader``."""
    paths = [str(file) for file in files]
    if not paths:
        return
    try:
        listing = subprocess.run(["ldd", *paths], capture_output=True, text=True, check=False, env=_ldd_environment())
    except FileNotFoundError as error:
        raise MissingRequirement("ldd is not installed: it comes with the C library (libc-bin on Debian)") from error
    for name, arrow, plain in re.findall(r"^\s+(?:(\S+) => (/\S+)|(/\S+)) \(0x", listing.stdout, re.MULTILINE):
        path = Path(arrow or plain)
        if path.name.startswith("ld-"):
            yield "loader", path
        else:
            yield Path(name or plain).name, path


def _ldd_environment() -> dict[str, str]:
    """Ours, in English: the libraries that this very process found are the ones to take."""
    return {**os.environ, "LC_ALL": "C"}


DT_NULL, DT_RPATH, DT_RUNPATH, PT_DYNAMIC = 0, 15, 29, 2


def _search_path_last(file: Path) -> None:
    """Turn an ELF file's DT_RPATH into DT_RUNPATH, in place.

    The loader searches a DT_RPATH before ``--library-path``. An interpreter built with one that points into a folder
    which the agent owns inside the sandbox would load the agent's libraries.
    """
    data = bytearray(file.read_bytes())
    if data[:6] != b"\x7fELF\x02\x01":
        return
    table, size, count = (int.from_bytes(data[at : at + width], "little") for at, width in ((32, 8), (54, 2), (56, 2)))
    for header in range(table, table + size * count, size):
        if int.from_bytes(data[header : header + 4], "little") != PT_DYNAMIC:
            continue
        entry = int.from_bytes(data[header + 8 : header + 16], "little")
        while (tag := int.from_bytes(data[entry : entry + 8], "little")) != DT_NULL:
            if tag == DT_RPATH:
                data[entry : entry + 8] = DT_RUNPATH.to_bytes(8, "little")
                file.chmod(stat.S_IMODE(file.stat().st_mode) | stat.S_IWUSR)
                file.write_bytes(data)
            entry += 16


def _copy_packages(target: Path) -> None:
    target.mkdir()
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise MissingRequirement(
                f"{name} is not installed here, and the grader carries it along: pip install {name}"
            )
        if spec.submodule_search_locations is None:
            shutil.copy2(spec.origin, target / f"{name}.py")
        else:
            shutil.copytree(Path(spec.origin).parent, target / name, ignore=_unneeded)


def _compile(target: Path) -> None:
    """Byte code that needs no check against its source: quicker to start, and copies may lose their times.

    In this process: workers forked from a program with threads can hang, and outlive one that is killed.
    """
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(target, maxlevels=20, quiet=2, workers=1, invalidation_mode=unchecked)


def _open_to_all(target: Path) -> None:
    """Readable by whatever user the grader is in its sandbox, writable by nobody but us."""
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            run = path.is_dir() or path.stat().st_mode & stat.S_IXUSR or path.parent.name in {"lib", "bin"}
            path.chmod(0o755 if run else 0o644)
