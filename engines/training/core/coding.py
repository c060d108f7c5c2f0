"""Stores the weights of a model or part in less room: `python -m engines.training.core.coding FOLDER --as lossless`.

lossless: bfloat16 matrices with coded exponents, two thirds of the room, the same weights bit by bit, so that every
recording made with them still repeats. int8: one byte for each entry and one scale for each row; what it does to the
marks must be measured first. plain: as transformers reads it. `engines/models/files/stored.py` says how a file looks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engines.core.errors import UserError
from engines.models.files import stored
from engines.models.files.hub import header, identity, metadata, read_json, sha256, tokenizer_folder

HOW = ("lossless", "int8", "plain")
LARGE = 2048  # entries from which on a matrix is coded
FORMERLY, LOST = "formerly", "relative_error"  # in the metadata: which weights these were, and what they lost
OURS = (stored.MARK, stored.IDENTITY, stored.OWN, FORMERLY, LOST)
TOLD = {"lossless": "bfloat16, exponents coded, nothing lost", "int8": "int8 by row, one scale for each row"}


def coded(state: Mapping[str, Tensor], how: str, keep: Collection[str] = ()) -> dict[str, Tensor]:
    """The tensors as they will lie in the file. Those in `keep`, vectors and small matrices stay as they are; so do,
    under lossless, those that are not in bfloat16, and under int8 stacks of matrices."""
    out: dict[str, Tensor] = {}
    for name, tensor in state.items():
        large = tensor.ndim >= 2 and tensor.numel() >= LARGE and tensor.is_floating_point() and name not in keep
        if how == "lossless" and large and tensor.dtype == torch.bfloat16:
            out[name + stored.REST], out[name + stored.EXPONENTS] = stored.split(tensor)
        elif how == "int8" and large and tensor.ndim == 2:
            scale = stored.absmax(tensor)
            out[name + stored.INT8], out[name + stored.SCALE] = stored.quantised(tensor, scale), scale
        else:
            out[name] = tensor.contiguous()
    return out


def code(file: Path, how: str, keep: Collection[str] = ()) -> None:
    """Store a weight file in another way, in its place.

    Raises UserError for a damaged file, an unknown way, or a name in `keep` that no tensor has.
    """
    if how not in HOW:
        raise UserError(f"'{how}' is not a way to store weights; choose one of {', '.join(HOW)}.")
    header(file)
    state, plain = stored.read(file), identity(file)
    if unknown := sorted(set(keep) - set(state)):
        raise UserError(f"{file} has no tensor '{unknown[0][:100]}' to keep; it has for example '{min(state)}'.")
    tensors = coded(state, how, keep)
    about = {key: value for key, value in metadata(file).items() if key not in OURS}
    if tensors.keys() != state.keys():
        about[stored.MARK] = stored.FORMAT
        own = stored.like_helpers(state)
        about |= {stored.OWN: ",".join(own)} if own else {}
        lost = {FORMERLY: plain, LOST: f"{difference(state, tensors, own):.3g}"}
        about |= {stored.IDENTITY: plain} if how == "lossless" else lost
    partial = file.with_name(f".{file.name}.partial")
    save_file(tensors, partial, metadata=about or None)
    partial.chmod(0o644)  # the library writes it for the owner alone
    os.replace(partial, file)


def difference(state: Mapping[str, Tensor], tensors: Mapping[str, Tensor], own: Collection[str] = ()) -> float:
    """Norm of what coding took from the weights, relative to theirs; 0 for nothing. own: see `stored.OWN`."""
    back = stored.decoded(tensors, own)
    weights = {name: tensor for name, tensor in state.items() if tensor.is_floating_point()}
    apart = sum(float((back[name].double() - t.double()).square().sum()) for name, t in weights.items())
    return float((apart / max(sum(float(t.double().square().sum()) for t in weights.values()), 1e-300)) ** 0.5)


def said_of(file: Path, card: Mapping[str, Any]) -> dict[str, Any]:
    """What a card says of its weight file: the weights' sha256 and, under `stored`, how a coded file was made, its own
    sha256, its size and what coding took. `card`: the one before; its key `measured` under `stored` is kept."""
    about, said = metadata(file), {}
    if stored.MARK in about:
        how = "lossless" if stored.IDENTITY in about else "int8"
        said = {"as": TOLD[how], "file_sha256": sha256(file), "bytes": file.stat().st_size}
        said |= {"relative_error": float(about.get(LOST, 0))} | ({FORMERLY: about[FORMERLY]} if LOST in about else {})
    measured = {key: value for key, value in card.get("stored", {}).items() if key == "measured"}
    return {"sha256": identity(file), "stored": said | measured}


def convert(folder: Path, how: str, keep: Collection[str] = (), out: Path | None = None) -> Path:
    """Store the weights of a model or part in another way, in its folder or in a copy, and say so in its card. A plain
    copy gets the tokenizer too, so that transformers alone can open it.

    Raises UserError where there is no such folder, or for what `code` does not take.
    """
    if not (folder / "model.safetensors").is_file():
        raise UserError(f"{folder} holds no model.safetensors; give the folder of a model or part, with one such file.")
    if out is not None:
        shutil.copytree(folder, out, dirs_exist_ok=True)
        for file in tokenizer_folder(folder).glob("*") if how == "plain" else ():
            if not (out / file.name).exists():
                shutil.copyfile(file, out / file.name)
    target = out or folder
    code(target / "model.safetensors", how, keep)
    if card := read_json(target / "card.json"):
        card |= said_of(target / "model.safetensors", card)
        card |= {"bytes": card["stored"].get("bytes", 0)} if "bytes" in card else {}
        (target / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    return target


SECTION = """
## How they are stored

Large matrices are coded, see `engines/models/files/stored.py`; what is loaded from them has the type that is asked for
and the sum (sha256) of the plain file. bfloat16 with coded exponents is the same weights bit by bit: loss 0, every mark
and every recording as before. int8 by row is kept only where the held-out marks did not move. The right half says what
int8 by row does to each model instead: tasks whose exact match moves on the prompts of the tables below (masked and
block models: at p > 0.9), the mean over the tasks and the loss on them before and after, and how many recordings of the
gallery still repeat, all models that take part in one being in int8. Any folder is stored another way, or made plain
for transformers alone, by `python -m engines.training.core.coding FOLDER --as lossless | int8 | plain`. A model's
tokenizer is the one in the folder that its config.json names as `tokenizer_from`, beside it or, for a copy taken
elsewhere, here."""
HEAD = ["model", "MB in bfloat16", "MB here", "stored as", "relative error"]
HEAD += ["int8: MB", "relative error", "tasks that move", "exact match", "loss", "recordings that repeat"]


def stored_rows(cards: Mapping[str, Mapping[str, Any]]) -> list[list[Any]]:
    """The table of SECTION: a row under HEAD for each card of a coded file, by its folder's name."""
    rows: list[list[Any]] = []
    for name, card in cards.items():
        if not (said := card.get("stored", {})).get("as"):
            continue
        here = [name, f"{2 * card['parameters'] / 1e6:.2f}", f"{said['bytes'] / 1e6:.2f}", said["as"]]
        found = said.get("measured", {}).get("int8", {})
        both = {key: " to ".join(map(str, found[key])) if key in found else "-" for key in ("mean", "loss")}
        moved = f"{len(found['moved'])} of {found['tasks']}" if "moved" in found else found.get("instead", "-")
        repeat = " of ".join(map(str, found["recordings"])) if "recordings" in found else "-"
        size = [f"{found['bytes'] / 1e6:.2f}", found["relative_error"]] if "bytes" in found else ["-", "-"]
        rows.append([*here, said["relative_error"], *size, moved, both["mean"], both["loss"], repeat])
    return rows


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m engines.training.core.coding",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="of a model or part, as assets/models/tiny-dlm")
    parser.add_argument("--as", dest="how", choices=HOW, default="lossless")
    parser.add_argument("--keep", nargs="*", default=[], help="names of tensors that stay as they are")
    parser.add_argument("--out", type=Path, help="write a copy of the folder there instead")
    a = parser.parse_args()
    try:
        print(convert(a.folder, a.how, a.keep, a.out))
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
