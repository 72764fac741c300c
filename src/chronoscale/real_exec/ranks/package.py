"""Package: contents of jobs in a folder that a user carries to other machines, so that nothing of it travels when ranks start."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.bundle import Bundle, Cache, Content, hash_file
from chronoscale.records import read_json

MANIFEST, CONTENTS = "manifest.json", "contents"  # in a package: its files by path, SHA-256 and size; a file for each SHA-256
CHUNK = 1 << 20  # bytes
NAMED = 10  # faults in a message


def pack(jobs: Mapping[str, Job], folder: Path) -> tuple[Content, ...]:
    """Write the files that ranks of some jobs read to a package, each content once; return what is in it.

    jobs: by a name for the paths in its manifest. folder: new or empty. Raises UserError where it is neither, and as `Bundle.pack`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: not an empty folder; name a new one")
    (folder / CONTENTS).mkdir(parents=True)
    files = dict[str, Content]()
    for name, job in jobs.items():
        bundle, sources = Bundle.pack(job)
        for file in bundle.files:
            if file.sha256 not in files:
                shutil.copyfile(sources[file.sha256], folder / CONTENTS / file.sha256)
                files[file.sha256] = replace(file, path=f"{name}/{file.path}")
    (folder / MANIFEST).write_text(Bundle({}, tuple(files.values())).to_json())
    return tuple(files.values())


def unpack(folder: Path, cache: Cache) -> tuple[Content, ...]:
    """Check a package and put its contents where attached ranks look first; return what was in it.

    Raises UserError, one line with the names of those that are missing or damaged; the others are in the cache then. MachineError for a
    manifest whose paths are none.
    """
    manifest = read_json(folder / MANIFEST, Bundle, "manifest of a package", "copy the package again")
    faults = {file.path: fault for file in manifest.files if (fault := _fault(folder, file))}
    lacking = set(cache.lacks(manifest))
    for file in manifest.files:
        if file.path not in faults and file.sha256 in lacking:
            cache.add(file.sha256, _chunks(folder / CONTENTS / file.sha256))
    if faults:
        named = ", ".join(f"{path} is {fault}" for path, fault in [*faults.items()][:NAMED])
        more = f", and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
        raise UserError(f"{folder}: {named}{more}; copy the package again")
    return manifest.files


def _fault(folder: Path, file: Content) -> str:
    """What is wrong with a content of a package, '' for nothing."""
    path = folder / CONTENTS / file.sha256
    if not path.is_file():
        return "missing"
    return "" if path.stat().st_size == file.size and hash_file(path) == file.sha256 else "damaged"


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
