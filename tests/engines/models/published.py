"""The tiny checkpoints of the golden data in their published names, whole and changed."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from tests.engines.conftest import GOLDEN


def checkpoint(name: str) -> Path:
    return GOLDEN / "diffusion2026" / name / "checkpoint"


def config_of(name: str) -> dict[str, Any]:
    return json.loads((checkpoint(name) / "config.json").read_text("utf-8"))


def copied(tmp_path: Path, name: str, config: dict[str, Any] | None = None, lost: Sequence[str] = ()) -> Path:
    """It in the folder `copy`, with changes of its config (None removes a key), without the tensors named."""
    folder = shutil.copytree(checkpoint(name), tmp_path / "copy")
    changed, gone = config_of(name) | (config or {}), {key for key, one in (config or {}).items() if one is None}
    (folder / "config.json").write_text(json.dumps({key: one for key, one in changed.items() if key not in gone}))
    held = {key: tensor for key, tensor in load_file(folder / "model.safetensors").items() if key not in lost}
    save_file(held, folder / "model.safetensors")
    return folder
