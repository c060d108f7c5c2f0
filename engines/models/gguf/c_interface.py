"""llama.cpp's C interface, as far as it is used here, of whichever library is installed: that of the wheel `xllamacpp`,
which exports it on Linux and macOS, or of llama-cpp-python, which is built from source.

The parameters of a context are handed over whole, in a form that changes between versions and bears no number. So it
is told by the values that llama.cpp itself puts there: a form fits where every field has its documented default. Behind
the fields that are read there is room for more, which keep what llama.cpp put there."""

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator
from ctypes import (
    POINTER,
    c_bool,
    c_char,
    c_char_p,
    c_float,
    c_int8,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_void_p,
)
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engines.core.errors import UserError

VARIABLE = "EXPLORER_LLAMA_CPP"  # the path of a library that is taken instead
WHEEL, BUILT = "xllamacpp", "llama-cpp-python"
TRIED = f"{WHEEL}>=2026.9.10809,<2026.11"  # what pyproject.toml asks for; each version is tried by the nightly tests
SYSTEMS, MACHINES = ("linux", "darwin"), ("x86_64", "aarch64", "arm64")  # with a wheel that exports the interface
CARDS = ("cuda", "hip", "vulkan", "sycl", "musa", "cann")  # in the name of a library that computes on a card
ROOM = 256  # bytes behind the fields of ours
F32, F16, BF16 = 0, 1, 30  # ggml's numbers of types
ERROR = 4  # ggml's level of a line of its log
Log = ctypes.CFUNCTYPE(None, ctypes.c_int, c_char_p, c_void_p)

# Fields of `llama_context_params` and `llama_model_params` with their defaults, as the newest version has them.
CONTEXT: tuple[tuple[str, Any, float | None], ...] = (
    *(("n_ctx", c_uint32, 512), ("n_batch", c_uint32, 2048), ("n_ubatch", c_uint32, 512), ("n_seq_max", c_uint32, 1)),
    *(("n_rs_seq", c_uint32, 0), ("n_outputs_max", c_uint32, 0), ("n_outputs_max_per_seq", c_uint32, 1)),
    *(("n_threads", c_int32, 4), ("n_threads_batch", c_int32, 4), ("ctx_type", c_int32, 0)),
    *(("rope_scaling_type", c_int32, -1), ("pooling_type", c_int32, -1), ("attention_type", c_int32, -1)),
    *(("flash_attn_type", c_int32, -1), ("rope_freq_base", c_float, 0), ("rope_freq_scale", c_float, 0)),
    *(("yarn_ext_factor", c_float, -1), ("yarn_attn_factor", c_float, -1), ("yarn_beta_fast", c_float, -1)),
    *(("yarn_beta_slow", c_float, -1), ("yarn_orig_ctx", c_uint32, 0), ("defrag_thold", c_float, -1)),
    *(("cb_eval", c_void_p, None), ("cb_eval_user_data", c_void_p, None)),
    *(("type_k", c_int32, F16), ("type_v", c_int32, F16), ("moe_cache_size", c_size_t, 0)),
    *(("abort_callback", c_void_p, None), ("abort_callback_data", c_void_p, None)),
    *(("embeddings", c_bool, 0), ("offload_kqv", c_bool, 1), ("no_perf", c_bool, 1), ("op_offload", c_bool, 1)),
    *(("swa_full", c_bool, 1), ("kv_unified", c_bool, 0)),
)
MODEL: tuple[tuple[str, Any, float | None], ...] = (
    *(("devices", c_void_p, None), ("tensor_buft_overrides", c_void_p, None), ("n_gpu_layers", c_int32, -1)),
    *(("split_mode", c_int32, 1), ("load_mode", c_int32, -1), ("lazy_mode", c_int32, 1), ("main_gpu", c_int32, 0)),
    *(("tensor_split", c_void_p, None), ("progress_callback", c_void_p, None)),
    *(("progress_callback_user_data", c_void_p, None), ("kv_overrides", c_void_p, None)),
)
LATEST = (  # the newest first: a library that is older lacks those of the first, or of the first two
    {"moe_cache_size"},  # before 2026.10.11549
    {"lazy_mode"},  # before 2026.9.10809
)


class Batch(ctypes.Structure):
    """`llama_batch`, the same in all versions."""

    _fields_ = [
        *(("n_tokens", c_int32), ("token", POINTER(c_int32)), ("embd", POINTER(c_float)), ("pos", POINTER(c_int32))),
        *(("n_seq_id", POINTER(c_int32)), ("seq_id", POINTER(POINTER(c_int32))), ("logits", POINTER(c_int8))),
    ]


class Override(ctypes.Structure):
    """`llama_model_kv_override` with a whole number (`tag` 0), the same in all versions."""

    _fields_ = [("tag", c_int32), ("key", c_char * 128), ("number", c_int64), ("behind", c_uint8 * 120)]


def form(fields: tuple[tuple[str, Any, float | None], ...]) -> type[ctypes.Structure]:
    """A struct of these fields, with room behind them."""
    kinds = [(name, kind) for name, kind, _ in fields]
    return type("Parameters", (ctypes.Structure,), {"_fields_": [*kinds, ("behind", c_uint8 * ROOM)]})


LACKING = [set[str]().union(*LATEST[:count]) for count in range(len(LATEST) + 1)]
FORMS = {
    f"llama_{what}_default_params": [[field for field in fields if field[0] not in lacking] for lacking in LACKING]
    for what, fields in (("context", CONTEXT), ("model", MODEL))
}
SIGNATURES: dict[str, tuple[Any, ...]] = {  # result and arguments; parameters are added when their form is known
    "llama_backend_init": (None,),
    "llama_batch_free": (None, Batch),
    "llama_batch_init": (Batch, c_int32, c_int32, c_int32),
    "llama_decode": (c_int32, c_void_p, Batch),
    "llama_detokenize": (c_int32, c_void_p, POINTER(c_int32), c_int32, c_char_p, c_int32, c_bool, c_bool),
    "llama_free": (None, c_void_p),
    "llama_get_logits": (POINTER(c_float), c_void_p),
    "llama_get_memory": (c_void_p, c_void_p),
    "llama_log_set": (None, Log, c_void_p),
    "llama_memory_clear": (None, c_void_p, c_bool),
    "llama_memory_seq_cp": (None, c_void_p, c_int32, c_int32, c_int32, c_int32),
    "llama_memory_seq_pos_max": (c_int32, c_void_p, c_int32),
    "llama_memory_seq_rm": (c_bool, c_void_p, c_int32, c_int32, c_int32),
    "llama_model_free": (None, c_void_p),
    "llama_model_get_vocab": (c_void_p, c_void_p),
    "llama_model_n_swa": (c_int32, c_void_p),
    "llama_print_system_info": (c_char_p,),
    "llama_set_causal_attn": (None, c_void_p, c_bool),
    "llama_state_seq_get_data": (c_size_t, c_void_p, POINTER(c_uint8), c_size_t, c_int32),
    "llama_state_seq_get_size": (c_size_t, c_void_p, c_int32),
    "llama_state_seq_set_data": (c_size_t, c_void_p, POINTER(c_uint8), c_size_t, c_int32),
    "llama_supports_gpu_offload": (c_bool,),
    "llama_token_to_piece": (c_int32, c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool),
    "llama_tokenize": (c_int32, c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool),
    "llama_vocab_bos": (c_int32, c_void_p),
    "llama_vocab_eos": (c_int32, c_void_p),
    "llama_vocab_get_attr": (c_int32, c_void_p, c_int32),
    "llama_vocab_get_text": (c_char_p, c_void_p, c_int32),
    "llama_vocab_is_eog": (c_bool, c_void_p, c_int32),
    "llama_vocab_n_tokens": (c_int32, c_void_p),
}


def has_wheel() -> bool:
    """Whether there is a wheel of `xllamacpp` for this system that exports the interface."""
    import platform

    return sys.platform in SYSTEMS and platform.machine() in MACHINES


def candidates() -> Iterator[tuple[str, Path]]:
    """(name with version, path) of the libraries that are installed, the one that is to be taken first. Imports none of
    their packages. A built one is taken before the wheel where it was built for a card."""
    if given := os.environ.get(VARIABLE):
        yield given, Path(given)
        return
    libraries = [
        (f"{package} {_version(package)}", path)
        for package, module, pattern in ((WHEEL, "xllamacpp", "*.abi3.so"), (BUILT, "llama_cpp", "lib/*llama.*"))
        for folder in _folders(module)
        for path in sorted(folder.glob(pattern))
        if path.suffix in (".so", ".dylib", ".dll")
    ]

    def for_a_card(entry: tuple[str, Path]) -> bool:
        return any(card in other.name for other in entry[1].parent.glob("*ggml-*") for card in CARDS)

    yield from sorted(libraries, key=for_a_card, reverse=True)


def _folders(module: str) -> list[Path]:
    spec = importlib.util.find_spec(module)
    return [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of an unknown version"


def bound(name: str, path: Path) -> Any:
    """The library at a path with the functions of SIGNATURES and of parameters, typed. Raises UserError where it cannot
    be loaded, lacks one of them, or fills in the parameters in a form that is not known here."""
    for file in (file for folder in _folders("torch") for file in folder.glob("lib/libgomp.so*")):
        ctypes.CDLL(str(file))  # the wheel needs it, slim images of Linux lack it, and torch brings it
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise UserError(f"{name} is installed and cannot be loaded here ({str(error)[:200]}); {instead()}.") from None
    lacking = next((function for function in (*SIGNATURES, *FORMS) if not hasattr(library, function)), None)
    if lacking:
        raise UserError(f"{name} is not a llama.cpp that can be used here: it has no function {lacking}; {instead()}.")
    for function, (result, *arguments) in SIGNATURES.items():
        getattr(library, function).restype, getattr(library, function).argtypes = result, arguments
    known: dict[str, Any] = {function: _recognised(library, function) for function in FORMS}
    if unknown := next((function for function, structure in known.items() if structure is None), None):
        raise UserError(f"{name} fills in its parameters ({unknown}) in a form that is not known here; {instead()}.")
    context, model = known.values()
    library.llama_init_from_model.restype, library.llama_init_from_model.argtypes = c_void_p, (c_void_p, context)
    library.llama_model_load_from_file.restype = c_void_p
    library.llama_model_load_from_file.argtypes = (c_char_p, model)
    return library


def _recognised(library: Any, function: str) -> type[ctypes.Structure] | None:
    """The form in which every field has its default, left as what the function gives."""
    for fields in FORMS[function]:
        getattr(library, function).restype = kind = form(tuple(fields))
        given = getattr(library, function)()
        if all(getattr(given, name) == default for name, _, default in fields):
            return kind
    return None


def install() -> str:
    """What brings llama.cpp, in words."""
    if has_wheel():
        return f"`pip install '{TRIED}'` brings it"
    return f"`pip install {BUILT}` builds it, in about four minutes on two cores"


def instead() -> str:
    """What to install where this one cannot be used, in words."""
    if has_wheel():
        return f"install one that was tried: `pip install --force-reinstall --no-deps '{TRIED}'`"
    return f"build one for this machine: `pip install --force-reinstall --no-cache-dir --no-deps {BUILT}`"


def for_cards() -> str:
    """What to install for a card, in words."""
    if has_wheel():
        return (
            f"leave gpu_layers and device out, or install a wheel for the card (for CUDA 12.8: `pip install "
            f"--force-reinstall --no-deps '{TRIED}' --index-url https://xorbitsai.github.io/xllamacpp/whl/cu128`)"
        )
    return (
        "leave gpu_layers and device out, or build one for the card (for CUDA: `CMAKE_ARGS=-DGGML_CUDA=on pip install "
        f"--force-reinstall --no-cache-dir --no-deps {BUILT}`)"
    )


def for_other_processors(name: str) -> str:
    """What to install where this one uses instructions that the processor lacks, in words."""
    if name.startswith(WHEEL):
        return f"build one for it: `pip uninstall {WHEEL}`, then `pip install --no-cache-dir {BUILT}`"
    if has_wheel():
        return f"take the wheel, which needs no more than AVX2: `pip uninstall {BUILT}`, and {install()}"
    return (
        "build one for every processor: `CMAKE_ARGS=-DGGML_NATIVE=OFF pip install --force-reinstall --no-cache-dir "
        f"--no-deps {BUILT}`"
    )
