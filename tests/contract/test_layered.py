"""A method of a layered model keeps the contract of every method, and pays for the layers that it uses."""

from pathlib import Path

import pytest
import torch

import engines
from engines.core.kinds import KINDS
from explorer.bench.sweep import runnable
from tests.contract import runs
from tests.contract import test_every_method as contract
from tests.contract.runs import decode

FILE = Path(__file__).parent / "methods" / "exit_and_verify.py"
EVERY = [
    contract.test_the_trace_is_whole,
    contract.test_it_emits_what_it_declares,
    contract.test_equal_seeds_give_equal_runs_and_a_fork_without_a_change_is_one,
    contract.test_detail_changes_the_record_and_not_the_run,
    contract.test_closing_stops_at_once_and_keeps_what_is_there,
    contract.test_the_step_budget_holds,
    contract.test_every_parameter_has_an_effect,
    contract.test_lossless_means_equal_to_the_baseline,
    contract.test_a_run_can_be_forked_at_any_step,
    contract.test_a_forbidden_token_is_not_written,
    contract.test_a_fork_goes_on_from_the_recorded_state,
    contract.test_a_method_takes_over_where_its_control_stopped,
    contract.test_drafts_and_confidences_go_both_ways,
    contract.test_a_model_of_the_wrong_kind_is_refused,
]

pytestmark = pytest.mark.usefixtures("registry_unchanged")


@pytest.fixture
def slug(monkeypatch):
    (info,) = engines.load_method_file(FILE)
    monkeypatch.setitem(runs.METHODS, info.slug, info)
    monkeypatch.setitem(runs.MODELS, info.slug, KINDS[info.needs[info.role]].example)
    runs.forget()
    yield info.slug
    runs.forget()


@pytest.mark.parametrize("test", EVERY, ids=lambda test: test.__name__.removeprefix("test_"))
def test_a_layered_method_keeps_the_contract(slug, test):
    test(slug)


def test_the_layers_really_hold_different_numbers_of_rows(slug):
    """While drafts stand only in the first layers, the last one holds what was verified."""
    steps = decode(slug, drafts=3).steps
    drafted = [s.forwards["draft"] for s in steps if "draft" in s.forwards]
    assert drafted and all(s.facts["first layer"] - s.facts["last layer"] == s.tokens_fed for s in steps)


@pytest.mark.parametrize("exit_layer", [1, 3, 6])
def test_a_turn_pays_for_the_layers_of_each_row_once(slug, exit_layer):
    """Every row goes through all six layers; those of the drafts are the draft's up to the exit. Model calls stay one
    a turn."""
    trace = decode(slug, exit_layer=exit_layer)
    for step in trace.steps:
        drafted = step.forwards.get("draft", 0)
        assert step.forwards["target"] == 1
        assert step.work.get("draft", 0) == drafted * exit_layer
        assert sum(step.work.values()) == 6 * step.tokens_fed
    assert trace.totals.forwards_by_role["target"] == len(trace.steps) < trace.totals.tokens


def test_it_is_listed_offered_and_refused_like_any_method_of_its_kind(slug, tmp_path):
    info = engines.get_method(slug).info
    assert (info.needs, info.kind) == ({"target": "layered"}, "causal") and info in engines.list_methods()
    fitting = [m.name for m in engines.list_models() if "layered" in m.kinds]
    assert fitting == [m.name for m in engines.list_models() if m.kind == "causal"]
    assert isinstance(engines.assign_roles(info, "tiny-ar-s")["target"], KINDS["layered"].protocol)
    with pytest.raises(engines.UserError, match="layers 0 to 20 of tiny-ar-m were asked for and it has 6; choose"):
        decode(slug, exit_layer=20)
    assert info in runnable("causal", "tiny-ar-s") and info not in runnable("causal", "a folder")
    torch.manual_seed(0)
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

    config = GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt")
    with pytest.raises(engines.UserError, match="needs a layered model, gpt is causal; choose one of tiny-ar-l, "):
        engines.run(slug, tmp_path / "gpt", "1 2 3")
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    none = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None, "initializer_range": 0.3}
    Qwen3ForCausalLM(Qwen3Config(vocab_size=50, **size, **heads, **none)).save_pretrained(tmp_path / "qwen")
    trace = engines.run(slug, tmp_path / "qwen", "1 2 3", params={"max_new_tokens": 6})
    assert (
        trace.output_ids == engines.run("greedy", tmp_path / "qwen", "1 2 3", params={"max_new_tokens": 6}).output_ids
    )
