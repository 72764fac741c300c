"""Unpacking of compressed files only as far as memory holds what comes out of them, whatever they say of their size."""

from __future__ import annotations

import gzip
import io
import math
import resource
import sys
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import psutil

from chronoscale.errors import UserError

GZIP = b"\x1f\x8b"
ZIP = b"PK\x03\x04"
EMPTY_ZIP = b"PK\x05\x06"
READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of a zip archive's methods
PACKED = (".gz", ".zip")  # endings of names
MACS = "__MACOSX/"  # folder of an archive that holds what Macs know of its files
WORKBOOK = "[Content_Types].xml"  # a file that every workbook of Excel has
SHOWN = 3  # files of an archive
HEADER = 1 << 16  # bytes of a member in which the header of a .npy has to end
CHUNK = 1 << 20
MAX_RATIO = (
    500  # times its size that a packed file may unpack to, beyond `SMALL` bytes: close to the most that deflate can, for one repeated byte
)
SMALL = 1 << 30
OWN_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")
_GROUPS = {  # by what the system calls them: of version 2, and of version 1
    "": (_MOUNT, "memory.max", "memory.current", "file"),
    "memory": (_MOUNT / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "cache"),
}
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def name_unpacked(path: Path) -> str:
    """Return the name of a dataset's file as it is when it is unpacked."""
    return path.name.removesuffix(path.suffix) if path.suffix in PACKED else path.name


def free_memory() -> int:
    """Return how many bytes of memory this process may still take, of what is free now on the machine, in its control groups and under its
    own limit; dataset readers unpack no more."""
    free, limit = min(int(psutil.virtual_memory().available), *_free_in_control_groups()), resource.getrlimit(resource.RLIMIT_AS)[0]
    return free if limit == resource.RLIM_INFINITY else min(free, max(limit - int(psutil.Process().memory_info().vms), 0))


def _free_in_control_groups() -> list[int]:
    """Return bytes that each control group around this process, such as a container's, still has; its files in the page cache count as
    free."""
    free = [sys.maxsize]
    for line in OWN_GROUPS.read_text().splitlines() if OWN_GROUPS.exists() else []:
        _, kinds, name = line.split(":", 2)
        if kinds in _GROUPS:
            place, most, used, files = _GROUPS[kinds]
            for folder in [place / name.strip("/"), *(place / name.strip("/")).parents]:
                if (folder / most).exists() and (limit := (folder / most).read_text().strip()) != "max":
                    counts = dict(row.split() for row in (folder / "memory.stat").read_text().splitlines())
                    free.append(max(int(limit) - int((folder / used).read_text()) + int(counts[files]), 0))
    return free


def require_memory(path: str | Path, unpacked: int) -> None:
    """Check, before a packed dataset file is read, that the `unpacked` bytes it says to hold fit into free memory and are plausible for its
    size. Raises UserError with the sizes."""
    packed = Path(path).stat().st_size
    if unpacked > (free := free_memory()):
        sizes = f"{_format_bytes(packed)} that unpack to {_format_bytes(unpacked)}"
        raise UserError(f"{path}: {sizes}, and {_format_bytes(free)} of memory are free; it was not read")
    if unpacked > largest_plausible_size(packed):
        raise UserError(
            f"{path}: {_format_bytes(packed)} that unpack to {_format_bytes(unpacked)}; it was not read. If that is meant, save it unpacked"
        )


def largest_plausible_size(packed: int) -> int:
    """Return the most bytes that a packed dataset file of `packed` bytes unpacks to, unless it is made to fill memory: 500 times as many,
    at least 1 GiB."""
    return max(SMALL, MAX_RATIO * packed)


def read_npy_shape(member: IO[bytes], size: int) -> tuple[int, ...]:
    """Read the shape of the array in a member (.npy) of an open .npz archive, from the member's first bytes. Raises ValueError where its
    header promises another number of bytes than `size`, which the archive's directory does."""
    begin = io.BytesIO(member.read(HEADER))
    version = np.lib.format.read_magic(begin)
    if version not in _HEADERS:
        raise ValueError(f"a .npy of version {version}")
    shape, _, dtype = _HEADERS[version](begin)
    promised = begin.tell() + math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and promised != size:
        raise ValueError(f"a header promises {promised:,} bytes, the directory {size:,}")
    return tuple(shape)


def require_archive_memory(path: str | Path, archive: zipfile.ZipFile) -> None:
    """Check, before a .npz dataset is read, that memory has room for all of its arrays, by the sizes in the archive's directory, which no
    read exceeds. Raises UserError as `require_memory`, and ValueError as `read_npy_shape`."""
    require_memory(path, sum(info.file_size for info in archive.infolist()))
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            with archive.open(info) as member:
                read_npy_shape(member, info.file_size)


def gunzip(path: Path, data: bytes) -> bytes:
    """Unpack the bytes of a .gz dataset file at `path`. Raises UserError once they are more than half of free memory, or than is plausible;
    what `gzip` raises for a damaged file."""
    content = io.BytesIO()
    limit = free_memory()
    most = largest_plausible_size(len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        while part := file.read(CHUNK):
            content.write(part)
            if content.tell() > most:
                raise UserError(
                    f"{path}: {_format_bytes(len(data))} that unpack to more than {_format_bytes(most)}. If that is meant, save it unpacked"
                )
            if content.tell() > limit // 2:  # it is copied once
                sizes = f"{_format_bytes(len(data))} that unpack to more than {_format_bytes(limit // 2)}"
                raise UserError(f"{path}: {sizes}, half of the memory that is free")
    return content.getvalue()


def open_packed(path: Path) -> UnpackingReader | None:
    """Open the content of a dataset's file that is packed by gzip, or alone in a zip archive; None where its first bytes say that it is
    neither, and for an archive of NumPy's arrays.

    Raises OSError where it cannot be opened, zipfile.BadZipFile for an archive that is damaged, and UserError for one of several files, of
    none, with a password, of a file that is packed again, or by another method than deflate.
    """
    with path.open("rb") as file:
        begin = file.read(len(ZIP))
    if begin.startswith(GZIP):
        return UnpackingReader(path, gzip.GzipFile(path))
    return _open_only_member(path) if begin in (ZIP, EMPTY_ZIP) else None


def _open_only_member(path: Path) -> UnpackingReader | None:
    try:
        with zipfile.ZipFile(path) as archive:  # a member that is open outlives it
            member = _only_member(path, archive)
            return None if member is None else UnpackingReader(path, _open_member(path, archive, member))
    except (RuntimeError, NotImplementedError) as error:
        raise UserError(f"{path}: {error}; unpack it") from None


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo | None:
    members = [info for info in archive.infolist() if not info.is_dir() and not info.filename.startswith(MACS)]
    names = [info.filename for info in members]
    if names and all(name.endswith(".npy") for name in names):
        return None
    if WORKBOOK in names:
        raise UserError(f"{path}: a workbook of a spreadsheet, which is not read; save the sheet as CSV")
    if not names:
        raise UserError(f"{path}: an archive of no files; make it anew, or name the file itself")
    if len(names) > 1:
        shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
        raise UserError(f"{path}: an archive of {len(names):,} files ({shown}); unpack it and say which")
    return members[0]


def _open_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    if member.compress_type not in READ:
        how = f"by method {member.compress_type}, where deflate (method {zipfile.ZIP_DEFLATED}) is expected"
        raise UserError(f"{path}: '{member.filename}' in it is packed {how}; unpack it")
    require_memory(path, member.file_size)
    with archive.open(member) as content:
        begin = content.read(len(ZIP))
    if begin.startswith(GZIP) or begin in (ZIP, EMPTY_ZIP):
        raise UserError(f"{path}: '{member.filename}' in it is packed, too; unpack the archive")
    return archive.open(member)


class UnpackingReader(io.RawIOBase):
    """Stream of the content of a packed dataset file, `file`, unpacked as it is read. Raises UserError for a line that is longer than a
    quarter of the memory that is free (whoever reads lines holds one, several times), and once there is more than is likely."""

    def __init__(self, path: Path, file: IO[bytes] | gzip.GzipFile) -> None:
        self._path = path
        self._file = file
        self._line = 0
        self._limit = free_memory() // 4
        self._left = largest_plausible_size(path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._file.read(min(len(buffer), CHUNK))
        buffer[: len(part)] = part
        after = part.rfind(b"\n")
        self._line = self._line + len(part) if after < 0 else len(part) - after - 1
        self._left -= len(part)
        if self._left < 0:
            raise UserError(f"{self._path}: more than {MAX_RATIO} times as much as the file is long. If that is meant, save it unpacked")
        if self._line > self._limit:
            raise UserError(f"{self._path}: a line of more than {_format_bytes(self._limit)}, a quarter of the memory that is free")
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


def _format_bytes(count: int) -> str:
    power = min(max((len(str(count)) - 1) // 3, 0), 4)
    return f"{count / 1000**power:.3g} {['bytes', 'kB', 'MB', 'GB', 'TB'][power]}"
