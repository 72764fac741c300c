"""Bundle: a job and the files that its ranks read, by their content, for machines without a shared file system."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath

from chronoscale.batching.streams.prepared import META, PreparedMetadata
from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.contents_bound import DRAFT, make_room, note_use
from chronoscale.records import read_json, write_atomically

JOB = "job.json"


@dataclass(frozen=True, slots=True)
class Content:
    """A file of a bundle: its relative path, the SHA-256 of its bytes (hexadecimal), its size in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """A job and the files that its ranks read.

    texts: contents by relative path of the few small files that name others, which they do by relative paths here: the job file, and the
    metadata of prepared streams. files: all others.
    """

    texts: dict[str, str]
    files: tuple[Content, ...]

    @classmethod
    def pack(cls, job: Job) -> tuple[Bundle, dict[str, Path]]:
        """Return the bundle of a job, and where each content lies here, by its SHA-256. Raises UserError for a file that is missing."""
        sources, files, places, texts = dict[str, Path](), list[Content](), dict[str, str](), dict[str, str]()

        def place(name: str) -> str:
            if name in places:
                return places[name]
            source = Path(name)
            if not source.exists():
                raise UserError(f"{name}: no such file or folder, and job '{job.name}' reads it")
            places[name] = own = f"{len(places)}/{source.name}"
            for file in sorted(each for each in source.rglob("*") if each.is_file()) if source.is_dir() else [source]:
                path = os.path.normpath(PurePosixPath(own, file.relative_to(source).as_posix()))
                if file == source / META:  # its events lie elsewhere
                    prepared = read_json(file, PreparedMetadata, "record of a prepared stream")
                    events = os.path.relpath(place(os.path.realpath(source / prepared.stream)), own)
                    texts[path] = json.dumps(asdict(replace(prepared, stream=events)))
                    continue
                digest = hash_file(file)
                files.append(Content(path, digest, file.stat().st_size))
                sources[digest] = file
            return own

        relative = replace(replace(job, out="").map_paths(place), out="out")
        return cls({JOB: json.dumps(asdict(relative)), **texts}, tuple(files)), sources

    def to_json(self) -> str:
        """Return the bundle as JSON text: the job and the manifest of its files, without their contents."""
        return json.dumps(asdict(self))

    def __post_init__(self) -> None:
        """Raises MachineError for a path that leaves the bundle's folder."""
        for name in (*self.texts, *(file.path for file in self.files)):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise MachineError(f"job's bundle: path '{name}' leaves its folder")
        for file in self.files:
            if len(file.sha256) != 64 or set(file.sha256) - set("0123456789abcdef"):
                raise MachineError(f"job's bundle: '{file.sha256}' is no SHA-256")

    @classmethod
    def from_json(cls, text: str | bytes) -> Bundle:
        """Read a bundle of `to_json`. Raises MachineError for a path that leaves the bundle's folder."""
        record = json.loads(text)
        return cls(record["texts"], tuple(Content(**each) for each in record["files"]))

    def unpack(self, folder: Path, cache: Cache) -> Path:
        """Lay the bundle's files out below `folder` as links to their cached contents; return the path of the job file, whose paths are
        relative to `folder`."""
        for file in self.files:
            target = folder / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(cache.folder / file.sha256)
        (folder / "out").mkdir()
        for name, text in self.texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return folder / JOB


class Cache:
    """Files of this user on this machine by the SHA-256 of their contents, in a folder of mode 0700 in the temporary directory.

    name: its own, which no other cache on any machine has.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Open the cache, or make it. Raises MachineError where somebody else owns its folder, or could open it."""
        self.folder = folder or Path(tempfile.gettempdir()) / f"chronoscale-contents-{os.getuid()}"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        status = self.folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise MachineError(f"{self.folder}: not a folder that only you can open; remove it")
        with self._locked():
            file, name = self.folder / ".name", uuid.uuid4().hex
            if not file.exists() or len(file.read_text()) != len(name):
                write_atomically(file, name.encode())
            self.name = file.read_text()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def lacks(self, bundle: Bundle) -> list[str]:
        """Return the SHA-256 of each content of a bundle that is not here, once each; a damaged one is dropped first.

        Makes room for them, by `make_room`, whose errors it raises; contents of the bundle stay, since they are used now.
        """
        lacking = dict[str, int]()
        for file in bundle.files:
            path = self.folder / file.sha256
            try:
                note_use(path)  # first: nobody removes it while it is read
                if path.stat().st_size == file.size and hash_file(path) == file.sha256:
                    continue
                path.unlink()
            except FileNotFoundError:
                pass
            lacking[file.sha256] = file.size
        with self._locked():
            make_room(self.folder, sum(lacking.values()))
        return [*lacking]

    def has(self, sha256: str) -> bool:
        """Return whether a content is here, without a look at it."""
        return (self.folder / sha256).exists()

    def add(self, sha256: str, chunks: Iterator[bytes]) -> None:
        """Write a content that is received to the cache, whole or not at all. Raises MachineError where it is not what was announced."""
        digest = hashlib.sha256()
        with self._locked():
            descriptor, draft = tempfile.mkstemp(dir=self.folder, prefix=DRAFT)
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # while it is written, `make_room` leaves it
        try:
            with os.fdopen(descriptor, "wb") as file:
                for chunk in chunks:
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                if digest.hexdigest() != sha256:
                    raise MachineError(f"a file of the job was damaged on its way: its SHA-256 is {digest.hexdigest()}, expected {sha256}")
                os.replace(draft, self.folder / sha256)
        finally:
            Path(draft).unlink(missing_ok=True)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, hexadecimal; read once in a process, unless its size or time has changed."""
    status = path.stat()
    return _hash(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)
def _hash(path: Path, inode: int, size: int, mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
