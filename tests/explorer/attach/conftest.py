"""Real servers, once for all tests of a worker."""

from contextlib import contextmanager

import pytest

from tests.explorer.attach import servers


@contextmanager
def started(package, command):
    """A server of its own on a free port, where the package that it needs is installed."""
    for name in package.split():
        pytest.importorskip(name)
    port = servers.free_port()
    with servers.running(command(port), port) as url:
        yield url


@pytest.fixture(scope="session")
def gguf(tmp_path_factory):
    return servers.gguf_file(tmp_path_factory.mktemp("gguf") / "tiny-ar-l.gguf")


@pytest.fixture(scope="session")
def llama(gguf):
    """The address of a llama.cpp server that runs our tiny-ar-l."""
    with started("xllamacpp", lambda port: servers.llama_command(gguf, port)) as url:
        yield url


@pytest.fixture(scope="session")
def drafting(gguf):
    """The same with tiny-ar-s as its draft."""
    draft = servers.gguf_file(gguf.with_name("tiny-ar-s.gguf"), "tiny-ar-s")
    with started("xllamacpp", lambda port: servers.llama_command(gguf, port, str(draft))) as url:
        yield url


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    return servers.hub_folder(tmp_path_factory.mktemp("hub") / "tiny-ar-l")


@pytest.fixture(scope="session")
def transformers():
    """The address of `transformers serve`, which loads the folder that a request names."""
    with started("openai uvicorn fastapi", servers.transformers_command) as url:
        yield url
