"""Starting sandboxes: the nursery process, which forks their wardens, and the stage, which talks to one warden."""

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import runner
from runner.domain.errors import EngineError
from runner.sandbox.advice import KILLED, advised
from runner.sandbox.local.identity import Identity
from runner.sandbox.local.inside import wire
from runner.sandbox.local.process import Process, Program

ANSWER_SECONDS = 60.0
"""How long the inside may take to answer; generous, for machines under load."""
PACK_SECONDS = 600.0
GONE_SECONDS = 20.0
PROGRAM = "import sys; sys.path.append(sys.argv[1]); from runner.sandbox.local.inside.nursery import main; main()"


class Nursery:
    """One per backend, started by the first sandbox. Safe to use from many threads."""

    def __init__(self, identity: Identity | None = None) -> None:
        """``identity``: who the sandboxes' users are; None when that is found out later."""
        self._identity = identity
        self._lock = threading.Lock()
        self._requests: wire.Socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    @property
    def identity(self) -> Identity:
        """Who the sandboxes' users are outside. Raises EngineError where asking for it starts something."""
        assert self._identity is not None
        return self._identity

    def launch(self, settings: wire.Message, layer: int | None = None) -> "Stage":
        """Start a sandbox of these settings (see ``inside/tree.py``) and layer. Raises EngineError."""
        ours, theirs = wire.pair()
        ours.settimeout(ANSWER_SECONDS)
        try:
            with theirs:
                pid, pidfd = self._fork(settings, [theirs.fileno(), *([] if layer is None else [layer])])
        except OSError as error:
            ours.close()
            raise EngineError(advised(f"A sandbox could not be started: {error}")) from error
        except BaseException:
            ours.close()
            raise
        stage = Stage(ours, pidfd)
        try:
            stage.expect("unshared")
            try:
                self._fill(pid)
            except OSError as error:
                raise EngineError(advised(f"The sandbox's users could not be set up: {error}")) from error
            stage.tell({"mapped": True})
            stage.expect("ready")
        except BaseException:
            stage.close()
            raise
        return stage

    def close(self) -> None:
        """End the nursery. Sandboxes that it started live on until they are closed. Idempotent."""
        with self._lock:
            self._stop()

    def _fill(self, pid: int) -> None:
        """Fill the user namespace of a warden. Raises OSError."""
        self.identity.apply(pid)

    def _fork(self, settings: wire.Message, descriptors: Sequence[int]) -> tuple[int, int]:
        """A warden's process number, as the nursery sees it, and a descriptor for it. Raises EngineError, OSError."""
        answer, passed = self._ask(settings, descriptors)
        if "error" in answer:
            raise EngineError(advised(f"A sandbox could not be started: {answer['error']}"))
        return int(answer["pid"]), passed[0]

    def _ask(self, request: wire.Message, descriptors: Sequence[int] = ()) -> tuple[wire.Message, list[int]]:
        """The nursery's answer. Raises OSError."""
        with self._lock:
            try:
                return self._request(request, descriptors)
            except OSError:  # the nursery has died (of the machine's lack of memory, say): once more with a new one
                self._stop()
                return self._request(request, descriptors)

    def _request(self, request: wire.Message, descriptors: Sequence[int]) -> tuple[wire.Message, list[int]]:
        if self._requests is None:
            self._start()
        assert self._requests is not None
        wire.send(self._requests, request, descriptors)
        received = wire.receive(self._requests)
        if received is None:
            raise BrokenPipeError(f"the process that starts sandboxes has ended. {self._last_words()}")
        return received

    def _start(self) -> None:
        ours, theirs = wire.pair()
        ours.settimeout(ANSWER_SECONDS)
        self._requests = ours
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed by _stop)
        with theirs:
            self._process = self._spawn(theirs.fileno(), self._said)

    def _spawn(self, requests: int, said: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the process. In a session of its own, so that Ctrl-C reaches the runner alone, which then ends what it
        started. Raises OSError."""
        code_folder = str(Path(runner.__file__).parent.parent)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROGRAM, code_folder, str(requests)],
            pass_fds=[requests],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={},
            start_new_session=True,
        )

    def _stop(self) -> None:
        if self._requests is not None:
            self._requests.close()
        if self._process is not None:
            self._process.wait()
        if self._said is not None:
            self._said.close()
        self._requests = self._process = self._said = None

    def _last_words(self) -> str:
        if self._said is None:
            return "nothing was said about it"
        self._said.seek(0)
        return self._said.read()[-1000:].decode("utf-8", "replace").strip()


class Stage:
    """A running sandbox, as its warden sees it. Used by one thread at a time; ``close`` by any."""

    def __init__(self, end: wire.Socket, pidfd: int) -> None:
        self._end = end
        self._pidfd = pidfd
        self._closing = threading.Lock()

    def open_space(self) -> int:
        """A new process namespace. Raises EngineError."""
        return int(self.ask({"do": "open"})["space"])

    def close_space(self, space: int) -> None:
        """End every process of a space, and wait until they are gone. Raises EngineError."""
        self.ask({"do": "close", "space": space})

    def start(self, space: int, program: Program, *, stdin: int | None = None, stdout: int | None = None) -> Process:
        """Start a program in a space. Without ``stdin`` or ``stdout`` the process has pipes. Raises EngineError."""
        request = {"do": "start", "space": space, **program.message()}
        return Process.start(lambda descriptors: self.tell(request, descriptors), stdin=stdin, stdout=stdout)

    def pack(self, descriptor: int) -> None:
        """Write the changes that were made to the files as a layer. Raises EngineError."""
        self._end.settimeout(PACK_SECONDS)
        self.ask({"do": "pack"}, [descriptor])
        self._end.settimeout(ANSWER_SECONDS)

    def ask(self, request: wire.Message, descriptors: Sequence[int] = ()) -> wire.Message:
        """Send a request and return its answer. Raises EngineError."""
        self.tell(request, descriptors)
        return self.expect()

    def tell(self, request: wire.Message, descriptors: Sequence[int] = ()) -> None:
        """Send a request that has no answer. Raises EngineError."""
        try:
            wire.send(self._end, request, descriptors)
        except OSError as error:
            raise EngineError(f"The sandbox does not listen any more: {error}. {KILLED}") from error

    def expect(self, key: str = "") -> wire.Message:
        """The next answer. Raises EngineError when it is an error, or not the one that holds ``key``."""
        try:
            received = wire.receive(self._end)
        except OSError as error:
            raise EngineError(f"The sandbox does not answer: {error}. {KILLED}") from error
        if received is None:
            raise EngineError(f"The sandbox has ended. {KILLED}")
        answer, _ = received
        if "error" in answer:
            raise EngineError(advised(f"The sandbox failed at {answer['error']}"))
        if key and key not in answer:
            raise EngineError(f"The sandbox answered {answer} where {key} was due")
        return answer

    def close(self) -> None:
        """End the sandbox and wait until it is gone. Idempotent; does not raise."""
        with self._closing:
            if self._pidfd < 0:
                return
            with contextlib.suppress(OSError):  # it may have ended by itself
                self._end.shutdown(wire.BOTH_WAYS)  # wakes a thread that waits for an answer
            self._end.close()
            gone = select.poll()
            gone.register(self._pidfd, select.POLLIN)
            gone.poll(GONE_SECONDS * 1000)
            os.close(self._pidfd)
            self._pidfd = -1
