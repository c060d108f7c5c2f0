"""llama.cpp before it is loaded: which library, in which form, and what ends the process that tries it."""

import ctypes
import ctypes.util
import json
import signal
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import engines
from engines.core.errors import UserError
from engines.models.gguf import c_interface, trial
from engines.models.gguf.header import read_header
from tests import gguf_files
from tests.engines.refusals import refuses

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def header(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    trial.llama_cpp.cache_clear()
    return read_header(gguf_files.tiny_llama(tmp_path / "tiny.gguf")[0])


def test_the_versions_and_systems_that_are_named_are_those_that_are_asked_for():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    asked = next(one for one in map(Requirement, listed) if one.name == c_interface.WHEEL)
    assert Requirement(c_interface.TRIED).specifier == asked.specifier and asked.marker is not None
    for system in ("linux", "darwin", "win32"):
        for machine in ("x86_64", "aarch64", "arm64", "AMD64", "ppc64le"):
            there = asked.marker.evaluate({"sys_platform": system, "platform_machine": machine})
            assert there == (system in c_interface.SYSTEMS and machine in c_interface.MACHINES), (system, machine)


@pytest.mark.parametrize(
    ("wheel", "way"), [(True, r"`pip install 'xllamacpp>="), (False, "`pip install llama-cpp-python` builds")]
)
def test_where_there_is_none_the_command_is_told_that_brings_it(wheel, way, header, monkeypatch):
    monkeypatch.setattr(c_interface, "candidates", lambda: iter(()))
    monkeypatch.setattr(c_interface, "has_wheel", lambda: wheel)
    refuses(UserError, f"llama.cpp, which is not installed here; {way}", engines.load_model, header.path)
    refuses(UserError, "not installed here", trial.llama_cpp)
    assert engines.size_of(header.path).dtype == "F32", "what it needs is told all the same"


def test_the_wheel_comes_first_but_for_a_build_for_a_card_and_a_library_that_is_named(tmp_path, monkeypatch):
    for file in ("xllamacpp/xllamacpp.abi3.so", "llama_cpp/lib/libllama.so", "llama_cpp/lib/libggml-cpu.so"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.delenv(c_interface.VARIABLE, raising=False)
    monkeypatch.setattr(c_interface, "_folders", lambda module: [tmp_path / module])
    assert [path.name for _, path in c_interface.candidates()] == ["xllamacpp.abi3.so", "libllama.so"]
    (tmp_path / "llama_cpp/lib/libggml-cuda.so").touch()
    assert [path.name for _, path in c_interface.candidates()] == ["libllama.so", "xllamacpp.abi3.so"]
    monkeypatch.setenv(c_interface.VARIABLE, "/own/libllama.so")
    assert list(c_interface.candidates()) == [("/own/libllama.so", Path("/own/libllama.so"))]


def test_a_library_that_cannot_be_loaded_or_is_another_one_is_refused(tmp_path):
    (tmp_path / "broken.so").write_text("no library")
    refuses(
        UserError,
        r"w 1 .*cannot be loaded here \(.*\); (install|build) one",
        c_interface.bound,
        "w 1",
        tmp_path / "broken.so",
    )
    libc = Path(ctypes.util.find_library("c") or "libc.so.6")
    refuses(UserError, "is not a llama.cpp that can be used here: it has no function", c_interface.bound, "w 1", libc)


def test_openmp_is_torchs_where_the_system_has_none(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libgomp.so.1").touch()
    asked = list[str]()

    def load(path):
        asked.append(Path(path).name)
        if path.endswith("w.so"):
            raise OSError("nothing")

    monkeypatch.setattr(c_interface, "_folders", lambda module: [tmp_path] if module == "torch" else [])
    monkeypatch.setattr(c_interface.ctypes, "CDLL", load)
    refuses(
        UserError, r"w 1 is installed and cannot be loaded here \(nothing\)", c_interface.bound, "w 1", Path("w.so")
    )
    assert asked == ["libgomp.so.1", "w.so"]


class Library:
    """What fills in parameters as a version does: fields of `form`, `other` for the number of GPU layers or threads."""

    def __init__(self, name, fields, other=None):
        kind = c_interface.form(tuple(fields))

        def defaults():
            given = kind()
            for name, _, default in fields:
                setattr(given, name, default)
            if other is not None:
                setattr(given, next(field for field, *_ in fields if field in ("n_threads", "n_gpu_layers")), other)
            held = defaults.restype()
            ctypes.memmove(ctypes.byref(held), ctypes.byref(given), ctypes.sizeof(given))
            return held

        setattr(self, name, defaults)


@pytest.mark.parametrize("lacks", range(len(c_interface.LATEST) + 1))
@pytest.mark.parametrize("name", c_interface.FORMS)
def test_a_form_is_recognised_by_its_defaults_and_one_that_is_not_known_is_not(name, lacks):
    fields = c_interface.FORMS[name][lacks]
    found = c_interface._recognised(Library(name, fields), name)
    assert [field for field, _ in found._fields_[:-1]] == [field for field, *_ in fields]
    assert c_interface._recognised(Library(name, fields, other=9), name) is None, "one default is another one"
    assert c_interface._recognised(Library(name, [("new", ctypes.c_uint32, 9), *fields]), name) is None


def kill(number: int, said: str = "", written: str = "") -> str:
    says = f"print({said!r}, flush=True); print({written!r}, file=sys.stderr, flush=True)"
    return f"import os, sys; {says}; os.kill(os.getpid(), {number})"


TOLD = json.dumps({"name": "w 1", "card": False, "kernels": "AVX2 AMX_INT8"})
FAILED = "loading\n/src/ggml/src/ggml.c:4711: GGML_ASSERT(n > 0) failed\n360 ../csu/libc-start.c: No such file"
THROWN = "terminate called after throwing an instance of 'std::{}'\n  what():  {}"
FULL, ODD = THROWN.format("bad_alloc", "std::bad_alloc"), THROWN.format("out_of_range", "map::at")
SAYS = json.dumps({"error": "llama.cpp cannot load it."})
READ = "while it read 'tiny.gguf'"
LACKS, DAMAGED = f"w 1 came to an instruction that this processor lacks, {READ}", f"ended its process {READ}"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (kill(signal.SIGILL, TOLD), (LACKS, "what it uses: AVX2 AMX_INT8); ")),
        (kill(signal.SIGILL), (LACKS[4:], "what it uses: –); ")),
        (kill(signal.SIGABRT, TOLD, FAILED), (DAMAGED, "(ggml.c:4711: GGML_ASSERT(n > 0) failed); the file may be")),
        (kill(signal.SIGABRT, TOLD, FULL), ("memory of this machine did not suffice for w 1, while it read",)),
        (kill(signal.SIGABRT, TOLD, ODD), (DAMAGED, "(std::out_of_range: map::at); the file may be damaged")),
        (kill(signal.SIGKILL, TOLD), ("memory of this machine did not suffice for w 1", "take a smaller file")),
        (kill(signal.SIGSEGV, TOLD, "reading"), (DAMAGED, "(SIGSEGV, reading)")),
        ("raise SystemExit(3)", (DAMAGED, "(status 3, without a word)")),
        ("", (DAMAGED, "(status 0, without a word)")),
        (f"print('a line'); print({SAYS!r})", ("llama.cpp cannot load it.",)),
    ],
)
def test_what_ends_the_process_is_told_and_ends_no_other(code, told, header, monkeypatch):
    monkeypatch.setattr(trial, "COMMAND", (trial.COMMAND[0], "-c", code))
    with pytest.raises(UserError) as refused:
        trial.tried(header, "a sum", 0, 1)
    assert [part for part in told if part not in str(refused.value)] == [], str(refused.value)


@pytest.mark.parametrize(
    ("name", "wheel", "way"),
    [
        ("llama-cpp-python 1", True, "take the wheel, which needs no more than AVX2: `pip uninstall llama-cpp-python`"),
        ("xllamacpp 1", True, "`pip uninstall xllamacpp`, then `pip install --no-cache-dir llama-cpp-python`"),
        ("llama-cpp-python 1", False, "GGML_NATIVE=OFF pip install"),
    ],
)
def test_after_an_illegal_instruction_another_library_is_advised(name, wheel, way, header, monkeypatch):
    monkeypatch.setattr(c_interface, "has_wheel", lambda: wheel)
    code = kill(signal.SIGILL, json.dumps({"name": name}))
    monkeypatch.setattr(trial, "COMMAND", (trial.COMMAND[0], "-c", code))
    with pytest.raises(UserError) as refused:
        trial.tried(header, "a sum", 0, 1)
    assert way in str(refused.value)


def test_what_a_file_gave_is_kept_and_a_damaged_list_of_it_is_made_again(header, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "_asked", lambda *given: {"moved": 0.25})
    assert trial.tried(header, "a sum", 0, 1) == 0.25
    monkeypatch.setattr(trial, "_asked", lambda *given: {"moved": 0.5})
    assert trial.tried(header, "a sum", 0, 1) == 0.25
    assert trial.tried(header, "a sum", 0, 2) == 0.5, "other threads, other bits"
    monkeypatch.setattr(trial, "installed", lambda: "another version")
    assert trial.tried(header, "a sum", 0, 1) == 0.5
    kept = tmp_path / "decoding-explorer" / trial.KEPT
    kept.write_text("no JSON")
    monkeypatch.setattr(trial, "_asked", lambda *given: {"moved": None})
    assert trial.tried(header, "a sum", 0, 1) is None
