"""`python -m engines.models.files.fetching REPO COMMIT FOLDER FILE ...`: files of the hub into FOLDER, where its
library keeps the contents of a model's files, each under its sum. What broke off goes on where it stopped.

The library (2.4) throws the begun part of a file away, which with shards of 5 GB, several at a time, is all of them."""

import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PART = ".part"
AT_ONCE = 4


def main(repo: str, commit: str, folder: str, names: Sequence[str]) -> None:
    """Fetch the files, several at a time. Raises what the hub's library raises."""
    _end_with(os.getppid())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda name: fetch(repo, commit, Path(folder), name), names))


def fetch(repo: str, commit: str, folder: Path, name: str) -> None:
    """One file into the folder, under its sum."""
    from filelock import FileLock
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    url = hf_hub_url(repo, name, revision=commit)
    about = get_hf_file_metadata(url)
    assert about.etag is not None and re.fullmatch(r"[\w-]+", about.etag), f"{name} has no sum"
    folder.mkdir(parents=True, exist_ok=True)
    whole, part = folder / about.etag, folder / f"{about.etag}{PART}"
    with FileLock(lock := f"{part}.lock"):
        if whole.exists():
            return
        if part.exists() and part.stat().st_size > (about.size or 0):
            part.unlink()
        with open(part, "ab") as file:
            if file.tell() != about.size:
                http_get(url, file, resume_size=file.tell(), headers=build_hf_headers(), expected_size=about.size)
        if re.fullmatch(r"[0-9a-f]{64}", about.etag) and _sum(part) != about.etag:
            part.unlink()
            raise OSError(f"what came of {name} is not what the hub has; it is fetched anew next time")
        os.replace(part, whole)
    Path(lock).unlink(missing_ok=True)


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _end_with(parent: int) -> None:
    """End this process when the one that began it is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:4], sys.argv[4:])
