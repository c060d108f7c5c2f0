"""Servers that hang, lie, break off or lead elsewhere, and what no server is asked: one sentence each, and what had
arrived stays."""

import contextlib
import socket
import ssl
import subprocess
import threading

import pytest

from engines import UserError
from explorer.attach import FORMATS, Attached, attach, key_for, read_address
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
        (stream(piece("a"), "[1, 2]"), "no object"),
        (stream(piece("a"), {"error": {"message": "out of\nmemory"}}), "broke off: out of memory"),
        (stream(piece("a"), end=False), "closed the answer before its end"),
        (stream(piece("a"), end=False, after=silent), "sent nothing for 0.2 s"),
        (
            stream(piece("a"), end=False, after=lambda h: h.wfile.write(b"data: " + b"x" * (2**20 + 9))),
            "more than 1 MB",
        ),
    ],
)
def test_what_had_arrived_stays(reply, said):
    trace = ask(reply, patience=0.2 if "0.2 s" in said else 30)
    assert trace.end.reason == "failed" and said in trace.end.message and "What had arrived" in trace.end.message
    assert trace.text == "a" and len(trace.steps) == 1


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (status(404, {"error": {"message": "no such model"}}), r"answered 404 \(no such model\).*--api or --model"),
        (status(401, "<html>"), "answered 401; it wants a key"),
        (status(500, {"detail": "x" * 5000}), "answered 500"),
        (status(302, "", [("location", "https://elsewhere.example/v1")]), "redirects to elsewhere.example"),
        (status(307, "", [("location", "/v1/chat/completions")]), "redirects again and again"),
        (stream("oops"), "not JSON"),
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


def test_a_connection_cut_in_the_middle_of_a_chunk():
    def reply(handler):
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        data = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
        handler.wfile.write(b"%x\r\n%s\r\nff\r\nhalf" % (len(data), data))
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)

    trace = ask(reply)
    assert trace.text == "a" and "closed the connection in the middle" in trace.end.message


def test_an_empty_answer_is_complete_and_says_so():
    trace = ask(stream({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
    assert not trace.steps and trace.end.message == "The server's answer is empty."


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


def test_a_run_can_be_closed():
    with Scripted(stream(*(piece(f" {i}") for i in range(50)), pause=0.02)) as server:
        run = Attached(server.url, prompt="Hello")
        next(run), next(run)
        run.close()
        assert list(run) == [] and run.trace().end.reason == "stopped" and len(run.trace().steps) == 3


def test_nobody_and_somebody_without_a_list_of_models():
    with pytest.raises(UserError, match="cannot be reached"):
        attach(f"http://127.0.0.1:{free_port()}", prompt="Hello")
    with Scripted(stream(piece("a")), models=None) as server:
        assert attach(server.url, prompt="Hello").text == "a"
    with (
        Scripted(stream(piece("a")), models=("one", "two")) as server,
        pytest.raises(UserError, match=r"2 models.*one, two"),
    ):
        attach(server.url, prompt="Hello")


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path):
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    command = [*made, "-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl is not here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve():
            with contextlib.suppress(OSError):
                context.wrap_socket(listening.accept()[0], server_side=True)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(UserError, match=r"(?i)certificate"):
            attach(f"https://localhost:{port}", prompt="Hello")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (None, "empty"),
        ("file:///etc/passwd", "not an address"),
        ("127.0.0.1:8000", "not an address"),
        ("http://", "not an address"),
        ("http://user:pass@host", "password"),
        ("http://host/?key=1", "behind its path"),
        ("http://host:99999", "not understood"),
        ("http://[::1", "not understood"),
        ("http://" + "a" * 3000, "not understood"),
    ],
)
def test_what_is_no_address_is_refused(url, said):
    with pytest.raises(UserError, match=said):
        read_address(url)


def test_an_address_names_its_interface():
    assert read_address("https://host/v1/chat/completions") == ("https://host", "chat", "host")
    assert read_address("http://host:8000/proxy/v1/") == ("http://host:8000/proxy", "", "host")
    assert read_address("http://[::1]:8080/completion") == ("http://[::1]:8080", "llama", "::1")
    assert read_address("http://host\n").base == "http://host"
    assert read_address("http://[::1]:8080").local and not read_address("http://host").local


def test_a_key_comes_from_the_environment_and_never_goes_unencrypted(monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    assert key_for(read_address("https://host"), "MY_KEY") == "secret"
    assert key_for(read_address("http://127.0.0.1:1"), "MY_KEY") == "secret"
    with pytest.raises(UserError, match="unencrypted") as caught:
        key_for(read_address("http://host"), "MY_KEY")
    assert "secret" not in str(caught.value)
    with pytest.raises(UserError, match="not set"):
        key_for(read_address("https://host"), "NO_SUCH_KEY")
    with pytest.raises(UserError, match="never the key itself"):
        key_for(read_address("https://host"), "sk-12-34")
    monkeypatch.setenv("MY_KEY", "two\nlines")
    with pytest.raises(UserError, match="no header"):
        key_for(read_address("https://host"), "MY_KEY")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prompt": " "}, "prompt is empty"),
        ({"max_tokens": 0}, "max tokens=0"),
        ({"top": 21}, "top=21"),
        ({"temperature": -1.0}, "temperature=-1"),
        ({"api": "telnet"}, "chat, completions, llama, sglang"),
        ({"patience": float("nan")}, "patience=nan"),
    ],
)
def test_what_no_server_is_asked(options, said):
    with pytest.raises(UserError, match=said):
        attach("http://127.0.0.1:1", **{"prompt": "Hello", **options})


def test_the_command_refuses_in_one_line(monkeypatch, capsys, tmp_path):
    assert tuple(FORMATS) == APIS
    url = f"http://127.0.0.1:{free_port()}"
    for args, said in (
        ([url, "--prompt", "x"], "cannot be reached"),
        ([url, url, "--prompt", "x", "--json", "-"], "--json takes one run"),
        ([url] * 5 + ["--prompt", "x"], "at most 4"),
        ([url, "--prompt", "x", "--against", "greedy"], "METHOD@MODEL"),
        ([url, url, "--prompt", "x", *["--model", "a"] * 3], "given 3 times"),
        ([url, "--prompt", "x", "--traces", str(tmp_path / "none")], "make it first"),
    ):
        assert said in refused(capsys, "attach", *args)
    monkeypatch.setenv("EXPLORER_PUBLIC", "1")
    assert "public host" in refused(capsys, "attach", url, "--prompt", "x")


def test_a_broken_answer_is_kept_by_the_command(capsys, tmp_path):
    with Scripted(stream(piece("a"), "{")) as server:
        assert main(["attach", server.url, "--prompt", "x", "--json", str(tmp_path / "a.json")]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == "a" and "not JSON" in printed.err and (tmp_path / "a.json").exists()
