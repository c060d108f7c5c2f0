"""What is refused, by whom, and what stays: our sentence and not the toast of a component, and nothing that is shown
goes for a run that never began."""

import json

import pytest

import engines
from engines import UserError
from explorer.links import SLOTS
from explorer.page.catalogue import Form
from explorer.page.forks import Forks
from explorer.page.handlers import Handlers
from explorer.page.run_limits import Limits
from tests.page.conftest import PROMPT, desk, first_model, methods_of, visitor

SLUG, MODEL = methods_of("causal")[0], first_model("causal")
LONG = "sort: " + ", ".join(["Mia"] * 600)  # longer than the model has room for, which only the loaded one can say


@pytest.fixture(scope="module")
def shown():
    return engines.run(SLUG, MODEL, PROMPT, params={"max_new_tokens": 8})


@pytest.fixture
def handlers(tmp_path, monkeypatch, shown) -> Handlers:
    monkeypatch.setenv("EXPLORER_STORE", str(tmp_path / "store"))
    made = desk(tmp_path, limits=Limits(100_000, 100, 60, False))
    made.sessions.of("visitor").show({0: shown})
    return made


def slots(handlers: Handlers, *params: dict) -> list:
    """The forms of all slots, with these params in the first ones."""
    given = [*params, *[{}] * (SLOTS - len(params))]
    return [handlers.catalogue.form(Form(SLUG, MODEL, some)).text() for some in given]


AWAITED = [{"batches": [], "expect": True}, {"batches": [], "expect": False}]  # the players waited, and nothing came


def sent(answers: list) -> list[dict]:
    """What went to the players, but for how many tokens their prompt has, where the model in memory could count it."""
    told = [json.loads(one[0]) for one in answers if isinstance(one[0], str)]
    return [{name: value for name, value in one.items() if name != "tokens"} for one in told]


def said(answers: list) -> dict:
    return json.loads(next(one[1] for one in reversed(answers) if isinstance(one[1], str)))


def run(handlers: Handlers, count: object, *params: dict, prompt: str = PROMPT) -> list:
    return list(handlers.run(visitor(), prompt, 0, count, *slots(handlers, *params)))


def of_slot(message: dict, slot: int) -> list[dict]:
    return [batch for batch in message["batches"] if batch["slot"] == slot]


def states(message: dict, slot: int) -> list[str]:
    return [batch["state"] for batch in of_slot(message, slot)]


def test_a_run_that_only_the_loaded_model_can_refuse_puts_nothing_away(handlers, shown):
    answers = run(handlers, "2", prompt=LONG)
    assert sent(answers) == AWAITED and not any(isinstance(one[2], str) for one in answers)
    text = said(answers)["text"]
    assert said(answers)["kind"] == "error"
    assert text.startswith("Slot 1: the prompt has") and ". Slot 2: the prompt has" in text
    session = handlers.sessions.of("visitor")
    assert session.traces == {0: shown} and session.running is None


def test_the_earlier_players_go_when_the_first_run_has_begun(handlers, monkeypatch):
    real = engines.stream

    def stream(slug, model, prompt, *, params, **options):
        if params["max_new_tokens"] == 9:
            raise UserError("there is no room for that.")
        return real(slug, model, prompt, params=params, **options)

    monkeypatch.setattr(engines, "stream", stream)
    awaited, first, *rest = sent(run(handlers, "3", *({"max_new_tokens": tokens} for tokens in (9, 4, 9))))
    assert awaited["expect"] and first["clear"] and not any("clear" in one for one in rest)
    assert states(first, 0) == ["queued", "failed"]
    assert of_slot(first, 0)[1]["message"] == "There is no room for that."
    assert states(first, 1) == ["queued", "running"] and states(first, 2) == ["queued"]
    numbers = [batch["seq"] for one in (first, *rest) for batch in of_slot(one, 1)]
    assert numbers == [*range(len(numbers))], "every batch of the slot that ran arrives once and in order"
    assert [*handlers.sessions.of("visitor").traces] == [1]


def test_a_stop_while_the_model_is_loaded_puts_nothing_away(handlers, shown, monkeypatch):
    real = engines.stream
    session = handlers.sessions.of("visitor")

    def stream(*given, **options):
        session.job.stop.set()
        return real(*given, **options)

    monkeypatch.setattr(engines, "stream", stream)
    answers = run(handlers, "2")
    assert sent(answers) == AWAITED and session.traces == {0: shown}
    assert said(answers)["text"] == "Stopped before anything was decoded; what was shown stays."


def test_a_stop_that_swallowed_the_first_message_sends_all_of_it_again(handlers):
    running = handlers.run(visitor(), PROMPT, 0, "2", *slots(handlers))
    next(running)
    assert json.loads(next(running)[0])["clear"]
    running.close()  # what the page may not have got
    session = handlers.sessions.of("visitor")
    session.job.finished.clear()
    session.job.finished.wait = lambda seconds: True
    again = json.loads(handlers.stop(visitor())[0])
    assert again["clear"] and states(again, 1) == ["queued", "stopped"]
    assert states(again, 0) == ["queued", "running", "stopped"]
    assert [batch["seq"] for batch in of_slot(again, 0)] == [0, 1, 2]


def test_a_refused_fork_leaves_the_player_whose_place_it_was_to_take(handlers, shown):
    other = engines.run(SLUG, MODEL, PROMPT, params={"max_new_tokens": 4})
    session = handlers.sessions.of("visitor")
    session.show({0: shown, 1: other})
    wish = {"slot": 0, "step": 2, "target": 1}
    answers = list(Forks(handlers).fork(json.dumps(wish | {"method": methods_of("masked")[0]}), visitor()))
    assert said(answers)["kind"] == "error" and sent(answers) == [] and session.traces == {0: shown, 1: other}
    answers = list(Forks(handlers).fork(json.dumps(wish), visitor()))
    assert said(answers)["kind"] == "ok" and session.traces[1].header.origin and session.traces[0] == shown


def test_how_many_slots_is_checked_without_a_crash(handlers):
    assert said(run(handlers, 1, {"max_new_tokens": 2}))["kind"] == "ok"
    for count in ("²", "٣", "12", 10**5000, [], None):
        assert said(run(handlers, count, {"max_new_tokens": 2}))["kind"] == "error"
