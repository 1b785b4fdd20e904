"""The file behind the ledger: where it is, its tables, and its troubles as one sentence each.

SQLite with a rollback journal and ``synchronous=EXTRA``: a commit is on the disk, the removal of its journal
included, before the call returns. Triggers keep the tables append-only: no spend can be deleted or changed,
but for the step from reserved to released. Who may go on with a spend (its token) stands in a table beside.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from veilrec.core import DataError

SCHEMA = 2
APPLICATION = 0x7665696C  # "veil"

_TABLES = """
CREATE TABLE spend (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    population TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    unit TEXT NOT NULL CHECK (unit IN ('user', 'interaction', 'attribute')),
    neighbours TEXT NOT NULL CHECK (neighbours IN ('add-remove', 'replace')),
    per_user INTEGER,
    events TEXT NOT NULL,
    epsilon REAL NOT NULL CHECK (epsilon >= 0),
    delta REAL NOT NULL CHECK (delta >= 0),
    grade TEXT NOT NULL,
    run TEXT NOT NULL,
    version TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'released')),
    reserved_at TEXT NOT NULL,
    released_at TEXT CHECK ((released_at IS NULL) = (state = 'reserved'))
);
CREATE INDEX spend_population ON spend (population);
CREATE TABLE cost (
    spend INTEGER NOT NULL REFERENCES spend (number),
    unit TEXT NOT NULL,
    neighbours TEXT NOT NULL,
    epsilon REAL NOT NULL CHECK (epsilon >= 0),
    delta REAL NOT NULL CHECK (delta >= 0),
    PRIMARY KEY (spend, unit, neighbours)
);
CREATE TABLE limit_change (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    population TEXT NOT NULL,
    unit TEXT NOT NULL CHECK (unit IN ('user', 'interaction', 'attribute')),
    neighbours TEXT NOT NULL CHECK (neighbours IN ('add-remove', 'replace')),
    epsilon REAL NOT NULL CHECK (epsilon > 0),
    delta REAL NOT NULL CHECK (delta >= 0 AND delta < 1),
    spent_epsilon REAL NOT NULL,
    spent_delta REAL NOT NULL,
    version TEXT NOT NULL,
    time TEXT NOT NULL
);
CREATE TRIGGER spend_changes BEFORE UPDATE ON spend
WHEN OLD.state != 'reserved' OR NEW.state != 'released' OR OLD.number != NEW.number OR OLD.id != NEW.id
    OR OLD.population != NEW.population OR OLD.fingerprint != NEW.fingerprint OR OLD.unit != NEW.unit
    OR OLD.neighbours != NEW.neighbours OR OLD.per_user IS NOT NEW.per_user OR OLD.events != NEW.events
    OR OLD.epsilon != NEW.epsilon OR OLD.delta != NEW.delta OR OLD.reserved_at != NEW.reserved_at
    OR OLD.grade != NEW.grade OR OLD.run != NEW.run OR OLD.version != NEW.version
BEGIN SELECT RAISE(ABORT, 'a spend stays as it is'); END;
"""
_KEPT = ("spend", "cost", "limit_change")
_TURNS = """
CREATE TABLE turn (
    spend INTEGER PRIMARY KEY REFERENCES spend (number),
    token TEXT NOT NULL
)
"""  # came with format 2


def ledger_path() -> Path:
    """The file in ``VEILREC_LEDGER``, ``$VEILREC_HOME/budget.sqlite`` or ``budget.sqlite`` in the user's
    data folder.

    >>> ledger_path().is_absolute()
    True
    """
    named, home = os.environ.get("VEILREC_LEDGER"), os.environ.get("VEILREC_HOME")
    if named:
        return Path(named).expanduser().absolute()
    if home:
        return Path(home).expanduser().absolute() / "budget.sqlite"
    shared = os.environ.get("XDG_DATA_HOME")
    folder = Path(shared) if shared else Path.home() / ".local" / "share"
    return folder.absolute() / "veilrec" / "budget.sqlite"


@contextmanager
def reading(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection for looking; a file that is not there, or empty, reads as a ledger without entries.

    >>> with reading(Path("not-there.sqlite"), 1.0) as db:
    ...     db.execute("SELECT count(*) FROM spend").fetchone()
    (0,)
    """
    with _plain(path, timeout):
        if path.exists():
            with closing(_connect(path, timeout)) as db:
                db.execute("BEGIN")  # one state for all queries
                if _is_ours(db, path):
                    yield db
                    return
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            _create(db)
            yield db


@contextmanager
def writing(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """One transaction that no other writer can enter; committed at the end, rolled back on any error.

    >>> import tempfile
    >>> where = Path(tempfile.mkdtemp()) / "budget.sqlite"
    >>> with writing(where, 1.0) as db:
    ...     db.execute("SELECT count(*) FROM spend").fetchone()
    (0,)
    """
    with _plain(path, timeout):
        if path.parent.is_file():
            raise DataError(f"cannot be made: {path.parent} is a file, not a folder.", file=path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(_connect(path, timeout)) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                if not _is_ours(db, path):
                    _create(db)
                _upgrade(db)
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=timeout, isolation_level=None)
    try:
        for pragma in ("synchronous=EXTRA", "fullfsync=ON", "foreign_keys=ON"):
            db.execute(f"PRAGMA {pragma}")
    except BaseException:
        db.close()
        raise
    return db


def _is_ours(db: sqlite3.Connection, path: Path) -> bool:
    """False for an empty file; anything that is not a whole ledger of a known version is refused."""
    (version,), (application,) = (
        db.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")
    )
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not version and not application:
        return False
    if application != APPLICATION:
        raise DataError("is an SQLite file, but not a budget ledger. Name another file.", file=path)
    if not 1 <= version <= SCHEMA:
        raise DataError(
            f"was written by another veilrec (format {version}, this one knows {SCHEMA}). Upgrade veilrec.",
            file=path,
        )
    (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise _damaged(path, found)
    return True


def _create(db: sqlite3.Connection) -> None:
    statements = _TABLES.replace("; END;", "\0 END;").split(";\n")
    for statement in filter(str.strip, statements):
        db.execute(statement.replace("\0", ";"))
    for table in _KEPT:
        db.execute(
            f"CREATE TRIGGER {table}_deletes BEFORE DELETE ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'what is spent stays spent'); END"
        )
    for table in ("cost", "limit_change"):
        db.execute(
            f"CREATE TRIGGER {table}_updates BEFORE UPDATE ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'what is written stays as it is'); END"
        )
    db.execute(f"PRAGMA application_id={APPLICATION}")
    db.execute("PRAGMA user_version=1")


def _upgrade(db: sqlite3.Connection) -> None:
    """A ledger of format 1 gets what it lacks when it is written to; reading it needs nothing more."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == 1:
        db.execute(_TURNS)
        db.execute(f"PRAGMA user_version={SCHEMA}")


def _damaged(path: Path, detail: str) -> DataError:
    return DataError(
        f"is damaged ({detail.splitlines()[0]}). Put a copy back; without one nobody knows what is left.",
        file=path,
    )


@contextmanager
def _plain(path: Path, timeout: float) -> Iterator[None]:
    """Troubles with the file as one sentence."""
    try:
        if path.is_dir():
            raise DataError("is a folder. Name a file for the budget ledger.", file=path)
        yield
    except OSError as error:
        raise DataError(
            f"cannot be used as the budget ledger: {error.strerror or error}.", file=path
        ) from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            message = f"is held by another process for more than {timeout:g} s. Try again."
        elif name == "SQLITE_NOTADB":
            message = "is not a budget ledger (not an SQLite file). Name another file."
        elif name.startswith("SQLITE_CORRUPT"):
            raise _damaged(path, str(error)) from error
        elif name.startswith("SQLITE_READONLY"):
            message = "is read-only, so nothing can be reserved. Make it writable or name another file."
        elif name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_FULL", "SQLITE_IOERR")):
            message = f"cannot be used as the budget ledger: {error}."
        else:
            raise
        raise DataError(message, file=path) from error
