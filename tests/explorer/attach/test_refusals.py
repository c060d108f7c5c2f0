"""Servers that hang, lie, break off or lead elsewhere, and what no server is asked."""

import contextlib
import json
import socket
import ssl
import subprocess
import threading

import pytest

from engines import UserError
from explorer.attach import FORMATS, attach, key_for, read_address
from explorer.cli import main
from explorer.cli.attach import APIS
from tests.explorer.attach.servers import Scripted, free_port, piece, silent, status, stream
from tests.explorer.commands import refused


def ask(reply, **options):
    with Scripted(reply) as server:
        return attach(server.url, prompt="Hello", **options)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (stream(piece("a"), "{nonsense", piece("b")), "not JSON"),
        (stream(piece("a"), "[1, 2]"), "not an object"),
        (stream(piece("a"), end=False), "closed the answer before its end"),
        (stream(piece("a"), {"error": {"message": "out of\nmemory"}}), "broke off: out of memory"),
        (stream(piece("a"), end=False, after=silent), "sent nothing for 0.2 s"),
        (stream(piece("a"), end=False, after=lambda h: h.wfile.write(b"data: " + b"x" * 2**21)), "more than 1 MB"),
    ],
)
def test_what_had_arrived_stays(reply, said):
    trace = ask(reply, patience=0.2 if "0.2 s" in said else 30)
    assert trace.end.reason == "failed" and said in trace.end.message and "What had arrived" in trace.end.message
    assert trace.text == "a" and len(trace.steps) == 1


def raw(text):
    """A reply that sends this stream as it stands."""

    def reply(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + text.encode())

    return reply


ERRORS = [
    {"error": {"message": "no room", "code": 500}},
    {"error": "no room"},
    {"text": "no room", "error_code": 50002},
    {"error_code": 17, "error_msg": "no room"},
    {"object": "error", "message": "no room", "code": 400},
    {"detail": "no room"},
    {"message": "no room", "code": "Throttling"},
    {"choices": [], "error": {"message": "no room"}},
    {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": {"message": "no room"}}]},
]
NAMED = [
    "event: error\ndata: no room\n\n",
    'event: error\rdata: {"detail": "no room"}\r\r',
    'error: {"message": "no room"}\n\n',
]


@pytest.mark.parametrize("api", ["chat", "completions", "llama", "sglang"])
@pytest.mark.parametrize("event", ERRORS)
def test_an_error_under_status_200_is_one_first_or_later(event, api):
    """kubeagi/arcadia#674 (FastChat), open-webui/open-webui#29628, BerriAI/litellm#40578."""
    first = {"llama": {"content": "a"}, "sglang": {"text": "a", "meta_info": {"completion_tokens": 1}}}.get(
        api, piece("a")
    )
    first = {"choices": [{"text": "a"}]} if api == "completions" else first
    with pytest.raises(UserError, match=r"^the server broke off: no room\.$"):
        ask(stream(event), api=api)
    trace = ask(stream(first, event), api=api)
    assert (trace.end.reason, trace.text) == ("failed", "a") and "broke off: no room" in trace.end.message


@pytest.mark.parametrize("text", NAMED)
def test_an_event_that_is_called_an_error_is_one(text):
    with pytest.raises(UserError, match="broke off: no room"):
        ask(raw(text))
    trace = ask(raw(f"data: {json.dumps(piece('a'))}\n\n{text}"))
    assert (trace.end.reason, trace.text) == ("failed", "a") and "broke off: no room" in trace.end.message


def test_an_abort_is_no_end():
    """vllm-project/vllm#52852: the last piece came, the answer did not."""
    trace = ask(stream(piece("a"), {"choices": [{"delta": {"content": "b"}, "finish_reason": "abort"}]}))
    assert (trace.end.reason, trace.text) == ("failed", "ab") and "'abort'" in trace.end.message
    why = {"type": "abort", "message": "no room", "status_code": 503}
    trace = ask(stream({"text": "a", "meta_info": {"completion_tokens": 1, "finish_reason": why}}), api="sglang")
    assert (trace.end.reason, trace.text) == ("failed", "a") and "broke off: no room" in trace.end.message
    with pytest.raises(UserError, match="broke off with 'abort'"):
        ask(stream({"choices": [{"delta": {}, "finish_reason": "abort"}]}))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (status(404, {"error": {"message": "no such model"}}), r"answered 404 \(no such model\).*--api or --model"),
        (status(302, "", [("location", "https://elsewhere.example/v1")]), "redirects to elsewhere.example"),
        (status(307, "", [("location", "/v1/chat/completions")]), "redirects again and again"),
        *((status(302, "", [("location", to)]), "redirects to") for to in ("http://[bad", "//[::1")),
        (status(401, "<html>"), "answered 401; it wants a key"),
        (stream(end=False), "closed the answer before its end"),
        (lambda handler: None, "closed the connection"),
        (silent, "sent nothing for 0.2 s"),
        (status(200, "x", [("content-encoding", "gzip")]), "packed"),
    ],
)
def test_a_server_from_which_nothing_arrived_is_refused(reply, said):
    with pytest.raises(UserError, match=said) as caught:
        ask(reply, patience=0.2 if "0.2 s" in said else 30)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_a_redirect_on_the_same_host_is_followed_and_its_key_goes_along():
    answer = stream(piece("a"), {"choices": [{"delta": {}, "finish_reason": "stop"}]})

    def reply(handler):
        if handler.path == "/v1/chat/completions":
            return status(307, "", [("location", "/elsewhere")])(handler)
        return answer(handler)

    with Scripted(reply) as server:
        trace = attach(server.url, prompt="Hello", key="secret")
    assert trace.text == "a" and server.asked[-1][0] == "/elsewhere"
    assert {k.lower(): v for k, v in server.asked[-1][1].items()}["authorization"] == "Bearer secret"
    assert "secret" not in trace.to_json()


def test_a_list_of_models_may_be_missing_and_several_are_a_choice():
    with Scripted(stream({"choices": [{"delta": {}, "finish_reason": "stop"}]}), models=None) as server:
        trace = attach(server.url, prompt="Hello")
    assert not trace.steps and trace.end.message == "The server's answer is empty."
    with Scripted(silent, models=("one", "two")) as server, pytest.raises(UserError, match=r"2 models.*one, two"):
        attach(server.url, prompt="Hello")


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 1 -keyout".split()
    try:
        subprocess.run([*command, str(key), "-out", str(cert)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl is not here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            with contextlib.suppress(OSError):
                context.wrap_socket(listening.accept()[0], server_side=True)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(UserError, match=r"(?i)certificate"):
            attach(f"https://localhost:{listening.getsockname()[1]}", prompt="Hello")


def test_an_address_names_its_interface_and_what_is_none_is_refused():
    wrong = {None: "empty", "file:///etc/passwd": "not an address", "http://u:p@host": "password", "http://[::1": "not"}
    for url, said in wrong.items():
        with pytest.raises(UserError, match=said):
            read_address(url)
    assert read_address("https://host/v1/chat/completions") == ("https://host", "chat", "host")
    assert read_address("http://host:8000/proxy/v1/") == ("http://host:8000/proxy", "", "host")
    assert read_address("http://[::1]:8080/completion") == ("http://[::1]:8080", "llama", "::1")
    assert read_address("http://host\n").base == "http://host"
    assert read_address("http://[::1]:8080").local and not read_address("http://host").local


def test_a_key_comes_from_the_environment_and_never_goes_unencrypted(monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    assert key_for(read_address("https://host"), "MY_KEY") == "secret"
    assert key_for(read_address("http://127.0.0.1:1"), "MY_KEY") == "secret"
    monkeypatch.setenv("BROKEN", "two\nlines")
    for url, name, said in (
        ("http://host", "MY_KEY", "unencrypted"),
        ("https://host", "NO_SUCH_KEY", "not set"),
        ("https://host", "sk-12-34", "never the key itself"),
        ("https://host", "BROKEN", "no header"),
    ):
        with pytest.raises(UserError, match=said) as caught:
            key_for(read_address(url), name)
        assert "secret" not in str(caught.value)


def test_the_command_refuses_in_one_line_and_keeps_a_broken_answer(monkeypatch, capsys, tmp_path):
    assert tuple(FORMATS) == APIS
    url = f"http://127.0.0.1:{free_port()}"
    for args, said in (
        ([url, "--prompt", "x"], "cannot be reached"),
        ([url, "--prompt", " "], "prompt is empty"),
        ([url, url, "--prompt", "x", "--json", "-"], "--json takes one run"),
        ([url] * 5 + ["--prompt", "x"], "at most 4"),
        ([url, "--prompt", "x", "--against", "greedy"], "METHOD@MODEL"),
        ([url, url, "--prompt", "x", *["--model", "a"] * 3], "given 3 times"),
        ([url, "--prompt", "x", "--traces", str(tmp_path / "none")], "make it first"),
    ):
        assert said in refused(capsys, "attach", *args)
    with Scripted(stream(piece("a"), "{")) as server:
        assert main(["attach", server.url, "--prompt", "x", "--json", str(tmp_path / "a.json")]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == "a" and "not JSON" in printed.err and (tmp_path / "a.json").exists()
    monkeypatch.setenv("EXPLORER_PUBLIC", "1")
    assert "public host" in refused(capsys, "attach", url, "--prompt", "x")
