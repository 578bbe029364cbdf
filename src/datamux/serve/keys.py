"""API keys: a key names its tenant. The file holds only hashes, and a change of the file counts at once.

While there has never been a file, nobody needs a key. If a file that was there is gone, nobody gets in: a disk that is
away for a moment must not open a server to everyone.
"""

import hmac
import importlib.util
import json
import logging
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

logger = logging.getLogger(__name__)
OF_THE_SERVER = ("anonymous", "everyone", "health check")  # tenants without a key, in metrics and logs
CHECK_EVERY = 1.0  # seconds between two looks at the file


@dataclass(frozen=True)
class Key:
    """One key. It is random and long, so a plain hash is enough."""

    name: str
    sha256: str
    created: str


class KeyFile:
    """Keys in a JSON file that only its owner can read."""

    def __init__(self, file: Path) -> None:
        self.file = file.expanduser()
        self._keys: list[Key] = []
        self._read_at = -CHECK_EVERY
        self._stamp: tuple[int, int] | None = None
        self._seen = False  # whether there ever was a file
        self._told: tuple[int, int] | None = None  # the stamp of the broken file that the log speaks of

    def add(self, name: str) -> str:
        """Make a key for the tenant `name` and return it. It cannot be shown again."""
        if not name or not name.isprintable() or len(name) > 100:
            raise ValueError(f"a name must be 1 to 100 printable characters, got {name!r}")
        if name in OF_THE_SERVER:
            raise ValueError(f"{name!r} is a name of the server itself; choose another name")
        secret = f"dmx_{secrets.token_urlsafe(32)}"
        with self._alone():
            keys = self.all()
            if any(key.name == name for key in keys):
                raise ValueError(f"there is a key named {name!r} already; remove it first, or choose another name")
            self._write([*keys, Key(name, _hash(secret), datetime.now(UTC).isoformat(timespec="seconds"))])
        return secret

    def remove(self, name: str) -> None:
        with self._alone():
            keys = self.all()
            if all(key.name != name for key in keys):
                raise ValueError(
                    f"there is no key named {name!r}; there are: {', '.join(key.name for key in keys) or 'none'}"
                )
            self._write([key for key in keys if key.name != name])

    def all(self) -> list[Key]:
        if not self.file.exists():
            return []
        try:
            return [Key(**key) for key in json.loads(self.file.read_text(encoding="utf-8"))["keys"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.file} is not a file of keys: {error}") from error

    @property
    def needed(self) -> bool:
        """Whether a key is needed: since somebody has made the file."""
        self._current()
        return self._seen

    def tenant(self, secret: str) -> str | None:
        """Whose key this is. All hashes are compared, each in constant time, so the time tells nothing."""
        given = _hash(secret)
        found = None
        for key in self._current():
            if hmac.compare_digest(key.sha256, given):
                found = key.name
        return found

    def _current(self) -> list[Key]:
        now = time.monotonic()
        if now - self._read_at >= CHECK_EVERY:
            self._read_at = now
            self._read_again()
        return self._keys

    def _read_again(self) -> None:
        """Take over what has changed. If the file cannot be read, the keys stay as they are, and the log says so."""
        stamp = None
        try:
            status = self.file.stat()
            self._seen = True
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp != self._stamp:
                self._keys, self._stamp = self.all(), stamp
        except FileNotFoundError:
            self._keys, self._stamp = [], None
        except (ValueError, OSError) as error:
            self._seen = True  # something is there
            if stamp is None or stamp != self._told:
                logger.error("the keys stay as they were: %s cannot be read (%s)", self.file, type(error).__name__)
            self._told = stamp

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until nobody else changes the file. Where there are no file locks, this does nothing."""
        if importlib.util.find_spec("fcntl") is None:
            yield
            return
        import fcntl

        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.with_name(self.file.name + ".lock").open("a") as handle:
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _write(self, keys: list[Key]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.file.parent)  # readable for its owner only
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump({"keys": [asdict(key) for key in keys]}, out, indent=1)
            Path(temporary).replace(self.file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
