"""`publish`: put the app or the static site on the Hugging Face Hub, as a Space.

A plain `git push` is refused there because of the binary files; `huggingface_hub` stores those as the Hub demands."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engines import ASSETS, UserError
from explorer.cli.options import Command
from explorer.words import printable

ROOT = ASSETS.parent
NEEDED = ("README.md", "LICENSE", "requirements.txt", "app.py", "engines", "explorer", "assets")  # of a Space
REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
LARGEST = 5  # files that are named
SAID = 2000  # characters of the Hub's own words
STATIC_README = "---\ntitle: Decoding Explorer\nsdk: static\napp_file: index.html\nlicense: apache-2.0\n---\n"
ACCEPT = ("y", "yes")


def add_arguments(publish: Command) -> None:
    """Declare the options of `publish`."""
    publish.one_of(
        ("--space", "OWNER/NAME", "the app itself, as a Gradio Space"),
        ("--static", "OWNER/NAME", "the site of `decoding-explorer site`, as a static Space"),
    )
    publish.flag("--yes", "upload without asking")
    publish.flag("--dry-run", "show what would be uploaded; needs no token")
    publish.set_defaults(command=publish_command)


def publish_command(args: argparse.Namespace) -> int:
    """Show what goes where, ask, upload."""
    name = args.space or args.static
    if not REPO.fullmatch(name):
        raise UserError(f"'{name}' is no name of a Space; write OWNER/NAME, such as 'ada/decoding-explorer'.")
    if args.space:
        return _publish(name, "gradio", space_files(ROOT), args, untracked(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        return _publish(name, "static", site_files(Path(folder) / "site"), args)


def space_files(root: Path) -> dict[str, Path]:
    """Path in the Space -> file: what a Space needs and git does not ignore. Raises UserError outside a checkout."""
    listed = _listed(root, "--cached") | _listed(root, "--others")
    files = {name: root / name for name in sorted(listed) if (root / name).is_file()}
    if missing := [
        name for name in NEEDED if not (name in files or any(path.startswith(f"{name}/") for path in files))
    ]:
        raise UserError(f"this checkout lacks {', '.join(missing)}, which a Space needs.")
    return files


def untracked(root: Path) -> list[str]:
    """The files among them that nobody has added to git: they may be there by mistake."""
    return sorted(name for name in _listed(root, "--others") if (root / name).is_file())


def _listed(root: Path, which: str) -> set[str]:
    asked = ("git", "-C", str(root), "ls-files", "-z", which, "--exclude-standard", "--", *NEEDED)
    try:
        output = subprocess.run(asked, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise UserError("the app is published from a git checkout of this repository, and this is none.") from None
    return set(os.fsdecode(output).split("\0")) - {""}


def site_files(folder: Path) -> dict[str, Path]:
    """Path in the Space -> file of the static site, built in `folder`, with the README that a static Space needs."""
    from explorer.site import build

    if made := build(folder, None).broken:
        raise UserError(f"the site was not built whole: {'; '.join(f'{name}: {why}' for name, why in made.items())}")
    (folder / "README.md").write_text(STATIC_README, "utf-8")
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def _publish(name: str, sdk: str, files: dict[str, Path], args: argparse.Namespace, apart: Sequence[str] = ()) -> int:
    sizes = {path: file.stat().st_size for path, file in files.items()}
    print(f"{name} ({sdk} Space): {len(files)} files, {sum(sizes.values()) / 1e6:.1f} MB; the largest:")
    for path in sorted(sizes, key=lambda candidate: -sizes[candidate])[:LARGEST]:
        print(f"  {sizes[path] / 1e6:7.2f} MB  {printable(path)}")
    if apart:
        print(f"{len(apart)} of them are not in git and go too; stop here if one should not:")
    for path in apart:
        print(f"  {printable(path)}")
    if args.dry_run:
        print("Nothing was uploaded (--dry-run).")
        return 0
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        raise UserError("there is no token for the Hub; set HF_TOKEN or log in with `hf auth login`.")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UserError("the token for the Hub holds characters that no token has; copy it anew into HF_TOKEN.")
    if not args.yes:
        print(f"Upload to {name}? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ACCEPT:
            raise UserError("nothing was uploaded; answer 'yes' or add --yes.")
    print(f"Published: {upload(name, sdk, files)}")
    return 0


def upload(name: str, sdk: str, files: dict[str, Path]) -> str:
    """Make the Space where there is none, and write all files in one commit; returns its address. Raises UserError."""
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    api, adds = HfApi(), [CommitOperationAdd(path, str(file)) for path, file in files.items()]
    try:
        api.create_repo(name, repo_type="space", space_sdk=sdk, exist_ok=True)
        api.create_commit(name, adds, repo_type="space", commit_message="Publish the Decoding Explorer")
    except OfflineModeIsEnabled:
        raise UserError("HF_HUB_OFFLINE is set, so nothing can be uploaded; unset it.") from None
    except HfHubHTTPError as error:
        raise UserError(_refusal(name, error)) from None
    except Exception as error:
        if not _of_network(error):
            raise UserError(
                f"the Hub's answer was not understood ({type(error).__name__}); look at '{name}' there, and try again."
            ) from None
        raise UserError(f"the Hub could not be reached ({type(error).__name__}); check the network.") from None
    return f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co').rstrip('/')}/spaces/{name}"


def _of_network(error: Exception) -> bool:
    """Whether a request failed before an answer came. The class is taken from a base of the Hub's own error, because
    the library below its client differs between versions."""
    from huggingface_hub.errors import HfHubHTTPError

    bases = [base for base in HfHubHTTPError.__mro__ if base.__name__ == "HTTPError"]
    return isinstance(error, (ConnectionError, *bases))


def _refusal(name: str, error: Any) -> str:
    """What an answer of the Hub means, without the token that it was sent."""
    from huggingface_hub import get_token

    code = error.response.status_code if error.response is not None else 0
    if code == 401:
        return "the Hub does not accept the token; set a valid HF_TOKEN or log in again with `hf auth login`."
    if code in (403, 404):
        return f"the token has no right to write to '{name}'; check the owner, and that the token may write."
    message = " ".join(str(error.server_message or "").split())
    if token := get_token():  # an answer may repeat a request
        message = message.replace(token, "(the token)")
    return f"the Hub refused the upload ({code or 'no status'}): {message[:SAID]}"
