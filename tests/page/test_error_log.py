"""What strangers send wrong is one line in the log; what we did wrong keeps its traceback."""

import json
import logging

import httpx
import pytest

from explorer.page import error_log
from explorer.page.run_limits import check_seed


@pytest.mark.parametrize("value", [None, True, -1, 1e308, "", [], {}, [[]], {"a": []}, "\ud800", "9" * 5000, [1, "2"]])
def test_no_handler_of_the_page_fails_for_an_odd_value(address, caplog, value):
    with httpx.Client(base_url=address, timeout=60) as client, caplog.at_level(logging.WARNING):
        for call in client.get("/config").json()["dependencies"]:
            if call["queue"] is False and call["backend_fn"]:
                data = [value] * len(call["inputs"])
                body = {"data": data, "fn_index": call["id"], "session_hash": "odd", "event_data": value}
                text = json.dumps(body)  # httpx itself refuses half of a character
                sent = client.post(
                    "/gradio_api/run/predict", content=text, headers={"content-type": "application/json"}
                )
                assert sent.status_code in (200, 400), (call["api_name"], sent.text)
                assert sent.status_code == 200 or len(sent.text) > 20, (call["api_name"], sent.text)
    assert "a handler failed" not in caplog.text and "Traceback" not in caplog.text


def test_a_fault_of_ours_keeps_its_traceback_and_a_visitors_value_none(caplog):
    def raised(what) -> str:
        caplog.clear()
        try:
            what()
        except Exception:
            error_log.report()
        return caplog.text

    def told(what) -> str:
        try:
            what()
        except Exception as error:
            return error_log.payload(error, False)["error"]

    assert (
        "Traceback" in raised(lambda: error_log.passed_ours(3))
        and told(lambda: error_log.passed_ours(3)) == error_log.FAILED
    )
    assert "is not allowed; give a whole number" in told(lambda: check_seed("\x1b[31m")) and "\x1b" not in told(
        lambda: check_seed("\x1b[31m")
    )
    assert (
        error_log.Answer({"error": error_log.FAILED}, 500).status_code
        == 500
        == error_log.Answer({"error": None}, 500).status_code
    )
    assert error_log.Answer({"error": "run a study first."}, 500).status_code == 400
    assert "Traceback" not in raised(lambda: check_seed("\x1b[31m")) and "\x1b" not in caplog.text
