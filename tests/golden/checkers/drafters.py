"""Golden cases of published drafters: which checkpoints load and which are refused; what the drafter reads; chains,
blocks, heads and trees with their logits; rounds of the speculative decode, and the verifier's own text.

One folder for each format (`cases.json` with its checkpoints beside it), and a case for each drafter in it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import engines
from engines.core.golden_cases import Case, checks, differ, loading
from engines.core.kinds import counted
from engines.core.lazy import torch
from engines.core.meter import Meter
from engines.core.trees import row_depths
from engines.methods.heads._rows import Drafter, expanded, reranked
from engines.methods.speculative._turn import Target, Turn
from engines.methods.speculative._verify import Draft
from engines.models.drafters.rows import Published

from .cases import Given, Values
from .drafter_heads import HeadsCheck, HydraCheck, tops

FOLDERS = ("eagle3-speculators", "eagle3-legacy", "eagle12-legacy", "peagle", "mtp", "dflash", "medusa", "hydra")
TOLERANCE = 1e-4
LOOKED_AT = {  # of a case; a key that no check reads is an error, so that a new kind of data is not passed over
    *(
        "prompt",
        "verifier_greedy",
        "verifier_min_top1_margin",
        "first_token",
        "hidden",
        "chain",
        "block",
        "heads",
        "tree",
    ),
    *("draft_input_ids", "block_input_ids", "block_positions", "training_forward"),
    *("spec_decode", "spec_decode_chain", "spec_decode_tree"),
    *("chain_min_margin", "block_min_margin", "heads_min_margin"),
}


@checks(*FOLDERS, sections=("drafters",))
def drafters(case: Case, data: Given, folder: Path) -> str | None:
    """One checkpoint: refused, or loaded and held against all of its cases."""
    target = engines.load_model(folder / "verifier", **loading(dtype="float32"))
    try:
        drafter = engines.load_drafter(folder / case["dir"], target)
    except engines.UserError as refusal:
        return None if case["expect"] == "refuse" else f"{case['dir']} was refused: {refusal}"
    if case["expect"] == "refuse":
        return f"{case['dir']} was loaded and should be refused: {case.get('reason', '')}"
    said = {"layer_ids": list(drafter.reads), "heads_in_file": drafter.k, "block_size": drafter.k + 1}
    if wrong := differ(case["dir"], said, {key: case[key] for key in said if key in case}):
        return wrong
    cases = case.get("cases") or next(one["cases"] for one in data["drafters"] if one["dir"] == case["cases_of"])
    for number, one in enumerate(cases):
        if unknown := set(one) - LOOKED_AT:
            return f"{case['dir']}[{number}] holds '{sorted(unknown)[0]}', which no check here reads"
        check = Check(target, drafter, one)
        if wrong := check.mismatch(f"{case['dir']}[{number}]"):
            return wrong
    return None


class Check:
    """One prompt with a target and a drafter."""

    def __init__(self, target: Any, drafter: Any, case: Given) -> None:
        self.meter = Meter()
        self.model = counted(target, "target", self.meter, "layered")
        self.drafter, self.case, self.n = drafter.counted(self.model, self.meter), case, target.num_layers
        self.plain, self.prompt = target, list(case["prompt"])

    def mismatch(self, name: str) -> str | None:
        """The first thing that is not as the data say."""
        with torch.inference_mode():
            check = KINDS.get(self.drafter.format, RowsCheck)(self)
            return self.common(name) or next(filter(None, check.all(name)), None)

    def common(self, name: str) -> str | None:
        """The verifier's own text, its next token, and the states that are read."""
        greedy = self.case["verifier_greedy"]
        ids, cache = list(self.prompt), self.plain.new_cache(len(self.prompt) + len(greedy))
        for _ in greedy:
            ids.append(int(self.plain.extend(ids[cache.length :], cache, last_only=True).logits.argmax()))
        if wrong := differ(f"{name}.verifier_greedy", ids[len(self.prompt) :], greedy):
            return wrong
        if wrong := differ(f"{name}.first_token", greedy[0], self.case["first_token"]):
            return wrong
        expected = self.case.get("hidden", {}).get("values")
        if expected is None:
            return None
        last = not isinstance(expected[0], list)
        got = self.all_states()
        return differ(f"{name}.hidden", (got[-1] if last else got).tolist(), expected, TOLERANCE)

    def all_states(self) -> Any:
        """States [n, D] of the prompt."""
        out = self.plain.extend(self.prompt, self.plain.new_cache(len(self.prompt)), hidden=self.drafter.reads)
        return self.drafter.states(out.hidden)

    def turn(self) -> Turn:
        """The round that reads the prompt and drafts nothing."""
        target = Target(self.model, self.prompt, SimpleNamespace(max_new_tokens=64, temperature=0.0), 64)
        return target.verify(list(self.prompt), Draft(self.prompt[-1]), torch.Generator(), hidden=self.drafter.reads)

    def rounds(self, wanted: Given, draft: Callable[[list[int]], Draft], learn: Callable[[Turn], None]) -> Values:
        """As many rounds of the speculative decode as are wanted, behind the one that reads the prompt."""
        target = Target(self.model, self.prompt, SimpleNamespace(max_new_tokens=512, temperature=0.0), 64)
        ids, rounds = list(self.prompt), []
        for number in range(len(wanted["rounds"]) + 1):
            tree = draft(ids) if number else Draft(ids[-1])
            turn = target.verify(ids, tree, torch.Generator(), hidden=self.drafter.reads)
            learn(turn)
            ids = turn.ids
            rounds.append({"drafted": tree.tokens[1:], "accepted": turn.accepted, "emitted": turn.gained})
        first = rounds[0]["emitted"]
        return {"first": first, "rounds": rounds[1:], "text": ids[len(self.prompt) :]}

    def same_rounds(self, name: str, got: Given, wanted: Given, *, own_token_first: bool = False) -> str | None:
        """Whether drafts, accepted numbers and emitted tokens are as wanted, and the text is the verifier's.
        own_token_first: whether a round of the data begins with the verifier's own token and ends before the next one,
        as that of code which keeps logits between rounds does."""
        rounds = [dict(one) for one in got["rounds"]]
        if own_token_first:
            news = [got["first"][-1], *(one["emitted"][-1] for one in rounds)]
            for own, one in zip(news, rounds, strict=False):
                one["emitted"] = [own, *one["emitted"][:-1]]
        told = ("drafted", "accepted", "emitted")
        expected = [{key: one[key] for key in told if key in one} for one in wanted["rounds"]]
        kept = [{key: one[key] for key in want} for one, want in zip(rounds, expected, strict=True)]
        if wrong := differ(f"{name}.rounds", kept, expected):
            return wrong
        if wrong := differ(f"{name}.accepted", [one["accepted"] for one in rounds], wanted["accepted_per_round"]):
            return wrong
        return differ(f"{name}.text", got["text"][: len(wanted["text"])], wanted["text"])


class RowsCheck:
    """EAGLE-1, -2, -3 and MTP: chains and confident trees from row to row."""

    def __init__(self, check: Check) -> None:
        self.check, self.case = check, check.case

    def fresh(self) -> Drafter:
        """A drafter that has read the prompt's states."""
        drafter = Drafter(Published(self.check.drafter))
        drafter.learn(self.check.turn())
        return drafter

    def all(self, name: str) -> Any:
        case, ids = self.case, [*self.check.prompt, self.case["first_token"]]
        if "draft_input_ids" in case:
            yield differ(f"{name}.draft_input_ids", ids[1:], case["draft_input_ids"])
        if "chain" in case:
            yield self.chain(name, ids)
        if "training_forward" in case:
            yield self.training(name, ids)
        if "tree" in case:
            yield self.tree(name, ids)
        for key in ("spec_decode", "spec_decode_chain", "spec_decode_tree"):
            if key in case:
                yield self.decode(f"{name}.{key}", case[key])

    def chain(self, name: str, ids: list[int]) -> str | None:
        """k tokens, each behind the one before, with the logits over what can be drafted."""
        drafter, rows, seen = self.fresh(), [], []
        source = drafter.source
        speak = source.logits
        source.logits = lambda F, predicts: seen.append(speak(F, predicts)) or seen[-1]  # type: ignore[method-assign]
        drafter.read(ids, 1)
        expanded(drafter.fan, ids[-1], 1, len(self.case["chain"]) - 1)
        rows = tops(torch.cat(seen), self.check.drafter, self.case["chain"])
        return differ(f"{name}.chain", rows, self.case["chain"], TOLERANCE)

    def training(self, name: str, ids: list[int]) -> str | None:
        """MTP's passes as it was trained: every pass reads the whole text again, at the same positions, each row with
        the state that the pass before gave it."""
        d, wanted = self.check.drafter, self.case["training_forward"]
        s, tokens, seen = self.check.all_states(), ids[1:], []
        n = len(tokens)
        at, sees = torch.arange(n), torch.ones(n, n, dtype=torch.bool).tril()
        for _ in wanted:
            out = d.rows(d.embed(tokens), s, d.pasts(), at, sees)
            seen.append(d.logits(out[-1:], [0]))
            s, tokens = out, [*tokens[1:], int(seen[-1].argmax())]
        return differ(f"{name}.training_forward", tops(torch.cat(seen), d, wanted), wanted, TOLERANCE)

    def tree(self, name: str, ids: list[int]) -> str | None:
        wanted, drafter = self.case["tree"], self.fresh()
        drafter.read(ids, wanted["top_k"])
        pool = expanded(drafter.fan, ids[-1], wanted["top_k"], wanted["depth"])
        tokens, parents, scores = reranked(pool, wanted["total_token"] - 1)
        got = {"tokens": tokens, "parents": parents, "depths": row_depths(parents), "scores": scores}
        return differ(f"{name}.tree", got, {key: wanted[key] for key in got}, TOLERANCE)

    def decode(self, name: str, wanted: Given) -> str | None:
        """Rounds of a chain of k, or of the tree that the case describes."""
        drafter, shape = Drafter(Published(self.check.drafter)), self.case.get("tree")
        if "k" in wanted:
            k, depth, n = 1, wanted["k"] - 1, wanted["k"]
        else:
            k, depth, n = shape["top_k"], shape["depth"], shape["total_token"] - 1

        def draft(ids: list[int]) -> Draft:
            drafter.read(ids, k)
            tokens, parents, _ = reranked(expanded(drafter.fan, ids[-1], k, depth), n)
            return Draft.of(tokens, parents, "draft")

        def learn(turn: Turn) -> None:
            drafter.learn(turn)
            drafter.forget(len(turn.ids) - 1)

        return self.check.same_rounds(name, self.check.rounds(wanted, draft, learn), wanted)


class BlockCheck:
    """P-EAGLE: k tokens in one pass over what is new of the text and the masks behind it."""

    def __init__(self, check: Check) -> None:
        self.check, self.case = check, check.case
        self.d, self.ids = check.drafter, [*check.prompt, check.case["first_token"]]

    def all(self, name: str) -> Any:
        case, k = self.case, len(self.case["block"])
        yield self.fed(name, k)
        z = self.guessed(self.ids, self.check.all_states(), self.d.pasts(), k)
        yield differ(f"{name}.block", tops(z, self.d, case["block"]), case["block"], TOLERANCE)
        yield self.decode(f"{name}.spec_decode", case["spec_decode"])

    def fed(self, name: str, k: int) -> str | None:
        masks = [self.d.mask_id] * (k - 1)
        return differ(f"{name}.draft_input_ids", [*self.ids[1:], *masks], self.case["draft_input_ids"])

    def guessed(self, ids: list[int], states: Any, pasts: Any, k: int) -> Any:
        """Logits of the k tokens behind a text, from the states of what is new of it."""
        out = self.d.spoken(self.d.block(self.d, ids[pasts.length + 1 :], states, pasts, k))
        return self.d.logits(out, list(range(len(ids), len(ids) + k)))

    def decode(self, name: str, wanted: Given) -> str | None:
        """Rounds; the next one reads the states of what was accepted."""
        d, k = self.d, wanted["k"]
        pasts, new = d.pasts(), []

        def draft(ids: list[int]) -> Draft:
            z = self.guessed(ids, torch.cat(new), pasts, k)
            new.clear()
            return Draft.of([ids[-1], *d.tokens(z.argmax(-1)).tolist()], range(-1, k), "draft")

        def learn(turn: Turn) -> None:
            path = turn.verdict.path
            new.extend([d.states(turn.hidden_chain), d.states({i: h[path] for i, h in turn.hidden.items()})])

        return self.check.same_rounds(name, self.check.rounds(wanted, draft, learn), wanted)


class FlashCheck(BlockCheck):
    """DFlash: the block stands behind the context, which takes the states."""

    def fed(self, name: str, k: int) -> str | None:
        n, masks = len(self.check.prompt), [self.d.mask_id] * k
        return differ(f"{name}.block_input_ids", [self.ids[-1], *masks], self.case["block_input_ids"]) or differ(
            f"{name}.block_positions", list(range(n, n + k + 1)), self.case["block_positions"]
        )

    def guessed(self, ids: list[int], states: Any, pasts: Any, k: int) -> Any:
        """See `BlockCheck`; the block begins with the last token."""
        out = self.d.fill(self.d, ids[-1], states, pasts, k + 1)
        return self.d.logits(out, list(range(len(ids), len(ids) + k)))


KINDS: dict[str, Any] = {
    "medusa-heads": HeadsCheck,
    "hydra-heads": HydraCheck,
    "parallel-eagle": BlockCheck,
    "dflash-block": FlashCheck,
}
