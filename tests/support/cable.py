"""A forwarding socket that can be cut: an engine that goes away in the middle, without stopping the real one."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path


class Cable:
    """Listens at ``path`` and forwards every connection to the Unix socket ``target``."""

    def __init__(self, path: Path, target: str) -> None:
        self._path, self._target = path, target
        self._ends: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut(self) -> None:
        """End every connection and refuse new ones."""
        self._path.unlink(missing_ok=True)
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(timeout=5)
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            self._ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=_pump, args=(source, sink), daemon=True)
                self._threads.append(thread)
                thread.start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def cable(path: Path, target: str) -> Iterator[Cable]:
    """A cable that is cut at the end at the latest."""
    laid = Cable(path, target)
    try:
        yield laid
    finally:
        laid.cut()
