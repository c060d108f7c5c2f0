"""Where model files come from and whether they are safe: a folder or a snapshot of the hub, safetensors only."""

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.core.places import assets
from engines.core.texts import decoded
from engines.models.files import downloads, stored
from engines.models.files.unread import INDEX, OTHER_TOKENIZERS, SHARD, TOKENIZER_FILES, WEIGHTS, some, unread

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
COMMIT = re.compile(r"[0-9a-f]{40}")
SECONDS = 3.0  # that the hub has to say what it has
CONFIGS = ["config.json", "generation_config.json"]
WANTED = ["*.safetensors", "*.json", "*.txt", "*.jinja", *OTHER_TOKENIZERS]  # no pickles, no code


def snapshot(repo: str, revision: str | None = None, wanted: Sequence[str] = WANTED) -> tuple[Path, str]:
    """The folder of a hub model, downloaded at the first use, and its commit. wanted: patterns of its files. Large ones
    are fetched as `engines.models.files.downloads` does. Raises UserError where it cannot be had."""
    import huggingface_hub as hub
    from huggingface_hub import constants

    missing = [] if constants.HF_HUB_OFFLINE else _missing(repo, revision, wanted)
    commit = missing[0].commit_hash if missing else revision
    files = {file.filename: file.file_size or 0 for file in missing}
    if sum(files.values()) >= downloads.LARGE:
        downloads.fetch(repo, str(commit), files, Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}")
    with _explaining(repo, revision):
        folder = Path(hub.snapshot_download(repo, revision=commit, allow_patterns=list(wanted)))
    return folder, folder.name


def _missing(repo: str, revision: str | None, wanted: Sequence[str]) -> list[Any]:
    """The files that are not on this machine, as the hub's library describes them; none where it cannot be asked, which
    the attempt to fetch them explains."""
    import huggingface_hub as hub

    try:
        files = hub.snapshot_download(repo, revision=revision, allow_patterns=list(wanted), dry_run=True)
    except Exception:
        return []
    return [file for file in files if file.will_download]


@contextmanager
def _explaining(repo: str, revision: str | None) -> Iterator[None]:
    """What the hub's library raises, as a UserError with what to do."""
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError:
        raise UserError(
            f"'{repo}' asks its users to accept terms first; accept them on its page and run `hf auth login`."
        ) from None
    except errors.RevisionNotFoundError:
        raise UserError(f"'{repo}' has no revision '{revision}'; leave it out for the newest.") from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"the hub has no model '{repo}', or it is private; check the spelling or run `hf auth login`."
        ) from None
    except Exception as error:  # no network has many names: offline switch, DNS, proxy, timeout
        why = type(error).__name__
        raise UserError(
            f"'{repo}' is not in the local cache and the hub cannot be reached ({why}); go online or give a local "
            "folder."
        ) from error


def check_folder(folder: Path, name: str) -> str:
    """The `identity` of the (first) weight file. Raises UserError unless the folder holds a config.json and whole
    safetensors weights, those of its card."""
    if not (folder / "config.json").is_file():
        raise UserError(
            f"'{name}' has no config.json, so it is not a transformers model; give the folder that holds config.json."
        )
    files = shards(folder)
    if not files:
        contents, convert = unread(folder)
        what_to_do = _repair(folder) if (folder / "card.json").is_file() else convert
        raise UserError(f"'{name}' needs weights as *.safetensors and has {contents}; {what_to_do}.")
    check_index(folder, files)
    for file in files:
        header(file)
    place = files[0].parent
    digest, expected = sha256(files[0]), expected_file(read_json(place / "card.json"))
    if expected is not None and files[0].name == WEIGHTS and digest != expected:
        sums = f"its sha256 is {digest[:12]}... and its card says {str(expected)[:12]}..."
        raise UserError(f"{files[0]} is not the file that was published: {sums}; {_repair(place)}.")
    return _plain_sum(files[0]) or digest


def check_index(folder: Path, files: Sequence[Path]) -> None:
    """Raises UserError where an index names other files than the folder has: what is downloaded again is the same."""
    others = sorted(file.name for file in folder.glob("*.safetensors"))
    if others and files and files[0].parent == folder and not any(file.is_file() for file in files):
        raise UserError(
            f"{folder / INDEX} names {files[0].name} and other files than the folder has ({some(others)}); it is of "
            "another build, so take the index that belongs to these files."
        )


def names_of(repo: str, revision: str | None) -> list[str]:
    """The names of all files of a hub model; none where the hub cannot be asked."""
    about = _about(repo, revision)
    return [] if about is None else [file.rfilename for file in about.siblings or ()]


def _about(repo: str, revision: str | None) -> Any | None:
    """What the hub says of a model; None where it cannot be asked, which the attempt to fetch something explains."""
    import huggingface_hub as hub
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return None
    with suppress(Exception):
        return hub.HfApi().model_info(repo, revision=revision, timeout=SECONDS)
    return None


def expected_file(card: Mapping[str, Any]) -> str | None:
    """The sha256 that a model's or part's weight file should have by its card; None where the card names none.

    A card's `sha256` is that of the weights, which is not the file's where the file is coded (see `stored`); the
    file's then stands under `stored`.
    """
    form = card.get("stored")
    digest = (form.get("file_sha256") if isinstance(form, dict) else None) or card.get("sha256")
    return None if digest is None else str(digest)


def identity(file: Path) -> str:
    """What tells whether two models have the same weights: the file's sha256, or, where weights are coded without loss,
    the sha256 of their plain file. Raises UserError as `header`."""
    return _plain_sum(file) or sha256(file)


def _plain_sum(file: Path) -> str:
    digest = metadata(file).get(stored.IDENTITY, "")
    return digest if re.fullmatch(r"[0-9a-f]{64}", digest) else ""


def _repair(folder: Path) -> str:
    """What to do about a damaged model: those with a card are ours, in the repository and made by its scripts."""
    if not (folder / "card.json").is_file():
        return "download or copy it again"
    return (
        f"install the package again, or in a clone restore it with `git checkout -- assets/models/{folder.name}` or "
        f"train it with `python -m engines.training {folder.name}`"
    )


def tokenizer_folder(folder: Path) -> Path:
    """Where a model's tokenizer lies: in its own folder, or in the one that its config.json names as `tokenizer_from`,
    which stands beside it or, for a copy of a model that was taken elsewhere, among the models that ship.

    Raises UserError where it is in neither place.
    """
    name = read_json(folder / "config.json").get("tokenizer_from")
    if name is None or any((folder / file).is_file() for file in TOKENIZER_FILES):
        return folder
    if place := _beside(folder, name, TOKENIZER_FILES):
        return place
    raise UserError(
        f"'{folder.name}' takes its tokenizer from the folder '{str(name)[:60]}', which is neither next to it nor in "
        f"{assets() / 'models'}; copy that folder there, or its files into {folder}."
    )


def _beside(folder: Path, name: object, files: Sequence[str]) -> Path | None:
    """The folder of that name which holds one of these files: beside a model's folder, or among the models that
    ship. A name, never a path."""
    places = [place / str(name) for place in (folder.parent, assets() / "models")]
    held = (place for place in places if any((place / file).is_file() for file in files))
    return next(held, None) if re.fullmatch(r"[\w-]+", str(name)) else None


def shards(folder: Path) -> list[Path]:
    """The model's weight files in order, without files that only lie beside them: those that transformers takes, the
    single file before an index. Where the index names files that are not there, it may be of another build: all shards
    of one set that are there, else those of the index. A model that is another one read in another way has none of its
    own: its config.json names that one as `weights_from`."""
    index, single = folder / INDEX, folder / WEIGHTS
    indexed = list[Path]()
    if index.is_file():
        places = read_json(index).get("weight_map")
        if not isinstance(places, dict) or not all(map(_plain, places.values())):
            raise UserError(f"{index} does not say in which file each tensor is; {_repair(folder)}.")
        indexed = [folder / name for name in sorted(set(places.values()))]
    if single.is_file():
        return [single]
    if indexed:
        return indexed if all(file.is_file() for file in indexed) else _whole_set(folder) or indexed
    name = read_json(folder / "config.json").get("weights_from")
    place = _beside(folder, name, [WEIGHTS]) if name is not None else None
    return [place / WEIGHTS] if place else []


def _whole_set(folder: Path) -> list[Path]:
    """The shards that are there, where they are all of one model: 1 to n of n."""
    names = [match for file in sorted(folder.glob("*.safetensors")) if (match := SHARD.fullmatch(file.name))]
    sets = {(match["stem"], match["count"]) for match in names}
    whole = len(sets) == 1 and [int(match["number"]) for match in names] == [*range(1, int(names[0]["count"]) + 1)]
    return [folder / match[0] for match in names] if whole else []


def _plain(name: object) -> bool:
    """Whether it names a file of its own folder."""
    return isinstance(name, str) and re.fullmatch(r"[\w][\w.-]{0,200}", name) is not None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or {} where there is no such file. Raises UserError if it is not one."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(decoded(path.read_bytes()))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON ({error}); download or write it again.") from None
    if not isinstance(value, dict):
        raise UserError(f"{path} must hold a JSON object and holds a {type(value).__name__}.")
    return value


def stamp(files: Iterable[Path]) -> tuple[tuple[str, int, int, int], ...]:
    """By what a change of files is seen: where each of them lies, its size and when it was written. Those that are not
    there are left out."""
    stamps = list[tuple[str, int, int, int]]()
    for file in files:
        with suppress(OSError):
            facts = file.stat()
            stamps.append((os.path.abspath(file), facts.st_ino, facts.st_size, facts.st_mtime_ns))
    return tuple(sorted(stamps))


def commit_of(repo: str, revision: str | None) -> str:
    """What a revision of a hub model is now: by the hub, or, where it cannot be asked, what was downloaded last; ""
    where neither is known."""
    from huggingface_hub import constants

    if COMMIT.fullmatch(revision or ""):
        return str(revision)
    if (about := _about(repo, revision)) is not None:
        return str(about.sha)
    ref = Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}" / "refs" / (revision or "main")
    return ref.read_text().strip() if ref.is_file() else ""


def sha256(path: Path) -> str:
    """Of a file's bytes; computed once per path, size and time of change. A hub file carries it in its name."""
    real = path.resolve()
    if re.fullmatch(r"[0-9a-f]{64}", real.name):
        return real.name
    facts = real.stat()
    return _sha256(str(real), facts.st_mtime_ns, facts.st_size)


@functools.lru_cache(maxsize=64)
def _sha256(path: str, changed: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def header(file: Path) -> dict[str, Any]:
    """The tensors' entries (shape, data_offsets ...) of a safetensors file, by name. Raises UserError if the file is
    missing, cut short or something else."""
    return _header(file)[0]


def metadata(file: Path) -> dict[str, str]:
    """What a safetensors file says of itself. Raises UserError as `header`."""
    return _header(file)[1]


def _header(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    try:
        size = file.stat().st_size
        with open(file, "rb") as opened:
            begin = 8 + int.from_bytes(opened.read(8), "little")
            entries = json.loads(opened.read(min(begin, size) - 8))  # shorter than it says: no JSON
        about = {str(key): str(value) for key, value in entries.pop("__metadata__", {}).items()}
        whole = begin + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except FileNotFoundError:
        raise UserError(f"{file} is missing; {_repair(file.parent)}.") from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{file} is not a safetensors file, or only its beginning; {_repair(file.parent)}.") from None
    if size != whole:
        raise UserError(f"{file} has {size:,} bytes and should have {whole:,}; {_repair(file.parent)}.")
    return entries, about


def count_parameters(folder: Path) -> int:
    """Parameters in the weight files, read from their headers. Raises UserError for a damaged file."""
    return sum(stored.numbers(header(shard)) for shard in shards(folder))
