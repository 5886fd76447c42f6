"""What can be told from a tracking address without MLflow: where it is, whether it answers, how to show it."""

import re
import socket
import sqlite3
import urllib.request
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

STORE_FILE = "mlflow.db"
ARTIFACTS_FOLDER = "mlartifacts"
CONNECT_SECONDS = 3.0
_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


def shown(uri: str) -> str:
    """The address without the user name and password it may hold."""
    return _USERINFO.sub("", uri)


def default_uri(outputs: Path) -> str:
    """The store of an outputs folder: an SQLite file in it."""
    return f"sqlite:///{outputs.resolve() / STORE_FILE}"


def is_server(uri: str) -> bool:
    """Whether a server is at the address, and not a file or database that we open ourselves."""
    return urlsplit(uri).scheme in ("http", "https")


def sqlite_file(uri: str) -> Path | None:
    """The file of an SQLite store, else None."""
    if not uri.startswith("sqlite:///"):
        return None
    return Path(uri.removeprefix("sqlite:///").partition("?")[0])


def artifact_root(uri: str) -> Path | None:
    """Artifacts lie beside an SQLite file; any other store has its own place for them."""
    file = sqlite_file(uri)
    return None if file is None else file.resolve().parent / ARTIFACTS_FOLDER


def require_reachable(uri: str, timeout: float) -> None:
    """Raise OSError or sqlite3.Error at once when a store cannot be used; MLflow would retry for minutes.

    An SQLite file must open for writing; at the address of a server or database something must listen. What is behind
    a proxy is left to MLflow: only the proxy could be asked.
    """
    file = sqlite_file(uri)
    if file is not None:
        _require_writable(file, timeout)
        return
    parts = urlsplit(uri)
    port = parts.port or _PORTS.get(parts.scheme.partition("+")[0])
    if parts.hostname is None or port is None or _is_proxied(parts.scheme, parts.hostname):
        return
    socket.create_connection((parts.hostname, port), timeout=min(CONNECT_SECONDS, timeout)).close()


def _require_writable(file: Path, timeout: float) -> None:
    with closing(sqlite3.connect(file, timeout=timeout, isolation_level=None)) as store:
        store.execute("BEGIN IMMEDIATE")
        store.execute("ROLLBACK")


def _is_proxied(scheme: str, host: str) -> bool:
    return scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)


def holds_run(uri: str, run_id: str) -> bool:
    """Whether an SQLite store still has this run, undeleted. False when that cannot be told this cheaply.

    A look at the file costs a millisecond, a look through MLflow two seconds, and most repeated commands have
    nothing to publish. Reads one table, read-only; any surprise there means False, and then MLflow is asked.
    """
    file = sqlite_file(uri)
    if file is None or not file.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=1.0)) as store:
            query = "SELECT 1 FROM runs WHERE run_uuid = ? AND lifecycle_stage = 'active'"
            return store.execute(query, (run_id,)).fetchone() is not None
    except sqlite3.Error:
        return False
