"""Real servers, once for all tests of a worker."""

import pytest

from tests.explorer.attach.servers import (
    free_port,
    gguf_file,
    hub_folder,
    lacking,
    llama_command,
    running,
    transformers_command,
)


@pytest.fixture(scope="session")
def gguf(tmp_path_factory):
    return gguf_file(tmp_path_factory.mktemp("gguf") / "tiny-ar-l.gguf")


@pytest.fixture(scope="session")
def llama(gguf):
    """The address of a llama.cpp server that runs our tiny-ar-l."""
    if lacking("xllamacpp"):
        pytest.skip("the package xllamacpp is not installed (pip install -e '.[test]')")
    port = free_port()
    with running(llama_command(gguf, port), port) as url:
        yield url


@pytest.fixture(scope="session")
def drafting(gguf):
    """The same with tiny-ar-s as its draft."""
    if lacking("xllamacpp"):
        pytest.skip("the package xllamacpp is not installed (pip install -e '.[test]')")
    port = free_port()
    draft = gguf_file(gguf.with_name("tiny-ar-s.gguf"), "tiny-ar-s")
    with running(llama_command(gguf, port, str(draft)), port) as url:
        yield url


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    return hub_folder(tmp_path_factory.mktemp("hub") / "tiny-ar-l")


@pytest.fixture(scope="session")
def transformers():
    """The address of `transformers serve`, which loads the folder that a request names."""
    if lacking("openai", "uvicorn", "fastapi"):
        pytest.skip("the package openai is not installed (pip install -e '.[test]')")
    port = free_port()
    with running(transformers_command(port), port) as url:
        yield url
