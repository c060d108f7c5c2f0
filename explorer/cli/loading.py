"""How the commands load a model: the options that say where its weights lie and in what form, and what it needs, told
before it is loaded."""

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import engines
from engines import UserError
from explorer.cli.io import print_json, remark
from explorer.words import printable

FIELDS = ("name", "parameters", "dtype", "quantization", "weights", "cache")
MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
GIVEN = {  # of the command -> of the loader
    **{name: name for name in ("device", "dtype", "gpu_layers", "row_invariant")},
    "quantisation": "quantization",
}


def loading(args: argparse.Namespace) -> dict[str, Any]:
    """What `engines.load_model` is given. Raises UserError for a device map that is none, or beside a device."""
    options = {name: value for key, name in GIVEN.items() if (value := getattr(args, key)) is not None}
    if args.device_map is None:
        return options
    if args.device is not None:
        raise UserError("--device and --device-map both say where the layers go; leave one of them out.")
    return options | {"device_map": device_map(args.device_map)}


def device_map(text: str) -> str | dict[str, Any]:
    """A word, or JSON: part of the network -> device. Raises UserError."""
    if not text.lstrip().startswith("{"):
        if text not in MAPS:
            raise UserError(
                f"--device-map {text[:60]} is not understood; give {', '.join(MAPS)}, or JSON such as "
                '{"model": 0, "lm_head": "cpu"}.'
            )
        return text
    try:
        devices = json.loads(text)
    except ValueError as error:
        raise UserError(f'--device-map is not valid JSON ({error}); write {{"model": 0, "lm_head": "cpu"}}.') from None
    wrong = next(
        (key for key, device in devices.items() if isinstance(device, bool) or not isinstance(device, (int, str))), None
    )
    if wrong is not None or not devices:
        raise UserError(
            f"--device-map gives '{str(wrong)[:40]}' no device; a device is a card's number, or a word such as cpu."
            if devices
            else "--device-map is empty; name at least one part of the network."
        )
    return devices


def load(name: str, options: Mapping[str, Any]) -> Any:
    """`engines.load_model`; what a large model needs is told first, on standard error."""
    tell(name, options)
    return engines.load_model(name, **options)


def tell(name: str, options: Mapping[str, Any]) -> None:
    """One line on standard error for a large model: its parameters and memory, and what is free. Loading says what is
    wrong with a model that none can be told for."""
    if engines.is_known(name):  # all listed ones are small
        return
    try:
        size = sized(name, options)
        if size.large:
            remark(size.beside(options.get("device") or "cpu", options.get("device_map")))
    except UserError:
        return


@contextmanager
def downloads_told() -> Iterator[None]:
    """Inside, a download says its size on standard error before it begins, and shows a bar where that is a terminal.
    Ctrl-C ends it, and the next one goes on from there."""
    bars: dict[tuple[str, int], Any] = {}
    last: dict[tuple[str, int], Any] = {}

    def watch(now: Any) -> None:
        from tqdm import tqdm

        key = (now.repo, now.bytes)
        last[key] = now  # before a word is said, so that whoever stops it then is told, too
        if key not in bars:
            remark(str(now))
            bars[key] = tqdm(total=now.bytes, initial=now.done, unit="B", unit_scale=True, disable=None)
        bars[key].update(now.done - bars[key].n)

    try:
        with engines.watching_downloads(watch):
            yield
    except KeyboardInterrupt:
        if any(download.done < download.bytes for download in last.values()):
            remark("the download was stopped; the same command goes on from there.")
        raise
    finally:
        for bar in bars.values():
            bar.close()


def sized(name: str, options: Mapping[str, Any]) -> Any:
    """`engines.size_of` with those of the loader's options that matter."""
    wanted = ("dtype", "quantization", "revision", "block_size")
    return engines.size_of(name, **{key: options[key] for key in wanted if options.get(key) is not None})


def size_command(args: argparse.Namespace) -> int:
    """`models --size`: parameters and memory, with what is free where the options would put it."""
    options = loading(args)
    size = sized(args.size, options)
    if args.json:
        print_json({key: getattr(size, key) for key in FIELDS})
    else:
        print(printable(size.beside(options.get("device") or "cpu", options.get("device_map"))))
    return 0
