"""Hand-made traces that fill every group of the schema, and the recorded ones."""

import gzip
import json
from typing import Any

import msgspec
import numpy as np

from engines.core.trace import (
    SCHEMA_VERSION,
    Box,
    Branch,
    Candidates,
    Commits,
    Decision,
    End,
    Header,
    Interval,
    Lane,
    Media,
    Memory,
    ModelRecord,
    Piece,
    Record,
    Routing,
    Span,
    Step,
    Trace,
    Tree,
    pack,
    pack_exact,
    packed_record,
)
from engines.core.trees import behind
from engines.core.truncated import Truncation
from engines.methods.multimodal._scene import Reading, Scene
from engines.methods.multimodal._seen import Vision
from engines.methods.multimodal._word import Sight
from engines.methods.reasoning._votes import Mode, Tally, Vote
from engines.methods.sampling.mgd.monitor import Completions
from engines.methods.speculative.rapid.opinions import Opinions
from explorer import ASSETS
from explorer.figures.handed import Counting, of_run

MASK, END = 0, 1
WORDS = (
    "Q: list three animals that live in the sea .\nA: the blue whale , a small octopus and an old green turtle live "
    "in the sea because it is their home and "
    "they find all of their food there , from plankton to fish and crabs ."
).split(" ")
HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=2>",
    "${window.hacked=3}",
    "`${window.hacked=4}`",
    "<!--",
    "&lt;b&gt;",
    "\u2028\u2029",
    "\u202eright to left",
    "\x00nul\x07",
    "a" * 10_000,
    "{{window.hacked=5}}",
    "\u00a0 \t\r\n",
]


def table() -> list[Piece]:
    """Ids 0 mask, 1 end, 2 a byte, then the words with the space in front, as a tokenizer has them."""
    texts = [WORDS[0], *(f" {word}" for word in WORDS[1:])]
    return [
        Piece(MASK, "<mask>", "special"),
        Piece(END, "<end>", "special"),
        Piece(2, "0xE2", "byte"),
        *(Piece(i + 3, t) for i, t in enumerate(texts)),
    ]


def header(method: str, title: str, family: str, **more: object) -> Header:
    model = ModelRecord("target", "tiny-base", "causal", parameters=3_400_000, dtype="float32", threads=2)
    told = {
        **{"schema": SCHEMA_VERSION, "method": method, "title": title, "family": family, "paper": "arXiv:0000.00000"},
        **{"params": {}, "models": [model], "prompt": "", "detail": "full", "baseline": None, "emits": []},
        **{"departures": "", "versions": {}, "machine": "Test machine, 2 cores", "started_at": "2026-01-01T00:00:00Z"},
        **{"seed": 7, "eos_ids": [END], "prompt_ids": list(range(3, 15)), "lossless": False},
    }
    return Header(**told | more)


def masked(board: int = 48, steps: int = 16, k: int = 4, pieces: list[Piece] | None = None) -> Trace:
    """A masked board of `board` positions that fills in blocks over `steps` steps."""
    pieces = pieces or table()
    ids, rng, prompt = [p.id for p in pieces[3:]], np.random.default_rng(0), list(range(3, 15))
    final = [*prompt, *(ids[(i + 12) % len(ids)] for i in range(board - len(prompt) - 2)), END, END]
    open_, out = list(range(len(prompt), board)), []
    for index in range(steps):
        block = open_[: max(4, board // 4)]
        n = len(open_) // (steps - index)
        confidence = np.full(board, np.nan, np.float32)
        rise = 0.25 + 0.5 * index / steps + 0.3 * rng.random(len(open_)) - 0.004 * (np.array(open_) - open_[0])
        confidence[open_] = np.clip(rise, 0, 1)
        chosen = sorted(sorted(block, key=lambda p: -confidence[p])[:n])
        others = np.array([[final[p], *rng.choice(ids, k - 1)] for p in open_])
        likely = np.sort(rng.dirichlet(np.ones(k), len(open_)), axis=1)[:, ::-1].astype(np.float32)
        step = Step(index, {"target": 1}, board, 0.004 + 0.001 * (index % 3), 0.0007, {"target": board * 6})
        causes, sure = ["top1", *["threshold"] * n][:n], [float(confidence[p]) for p in chosen]
        step.commits = Commits(chosen, [final[p] for p in chosen], causes, sure)
        step.scores = [
            Lane("confidence", "probability", 0, pack(confidence, 0, 1), 0.8),
            Lane("entropy", "nats", 0, pack(3 * (1 - confidence))),
        ]
        step.candidates = Candidates(list(open_), pack(others), pack(likely, 0, 1))
        step.spans = [
            Span("block", block[0], block[-1] + 1, "block"),
            Span("window", max(0, block[0] - 4), min(board, block[-1] + 5)),
        ]
        left = float(len(open_) - len(chosen))
        step.facts = {"mean_confidence": float(np.nanmean(confidence)), "masks_left": left}
        step.note = f"Of the block's {len(block)} positions, {len(chosen)} are sure enough to be written."
        out.append(step)
        open_ = [p for p in open_ if p not in chosen]
    texts = {piece.id: piece.text for piece in pieces}
    text = "".join(texts[token] for token in final[len(prompt) : -2])
    top = header("threshold", "Confidence threshold", "diffusion", mask_id=MASK, canvas=board)
    return Trace(top, out, pieces, End("complete", final[len(prompt) :], text, 0.2, 0.01))


NOTE = "The target reads the whole tree in one pass and keeps the longest path that it would have written itself."


def drafting(steps: int = 9) -> Trace:
    """A growing board with draft trees, a choice of model, a person's correction and a withdrawn stretch."""
    at, out, board, last = 12, [], {}, 3 + len(WORDS) - 1
    parents, sources = [-1, 0, 1, 2, 3, 0, 1, 5, 5, 2], ["root", *["draft"] * 6, *["ngram"] * 3]
    values = [None, -0.1, -0.4, -0.9, -1.6, -2.2, -1.9, -2.5, -3.0, -2.0]
    for index in range(steps):
        good = index % 4
        tokens = [min(t, last) for t in (at + 2, *(at + 3 + i for i in range(4)), 20, 21, 22, 23, 24)]
        accepted = [True, *(i < good for i in range(4)), *[False] * 5]
        fates = ["accepted" if i < good else "mismatch" if i == good else "unreached" for i in range(4)]
        others = ["mismatch", "mismatch" if good else "unreached", *["unreached"] * 2]
        why = ["root", *fates, *others, "mismatch" if good > 1 else "unreached"]
        emitted = [*tokens[1 : good + 1], min(at + 3 + good, last)]
        order = [0, 0, 0, 0, 0, 1, 1, 0, 1, 1]
        tree = Tree(
            at - 1, parents, tokens, accepted, why, emitted, sources, order, values, [None, -0.05, -0.3, *[None] * 7]
        )
        places = [at + i for i in range(len(emitted))]
        causes = ["accepted"] * good + [behind(parents, max(i for i, ok in enumerate(accepted) if ok))]
        commits = Commits(places, emitted, causes, [0.9] * good + [None])
        if index == 4:
            commits = Commits([at - 2, at - 2], [-1, 9], ["withdrawn", "forced"])
            tree = None
        for p, t in zip(commits.positions, commits.tokens, strict=True):
            board = {q: v for q, v in board.items() if q < p} if t < 0 else {**board, p: t}
        value = float(0.4 + 0.3 * np.sin(index))
        choice = Decision(["small", "large"], "large" if value < 0.4 else "small", "agreement", value, 0.4)
        choice.raw, choice.switched = value + 0.1 * (-1) ** index, index in (3, 6)
        choice.detail = "caught up 5 tokens" if index == 3 else ""
        step = Step(index, {"draft": 4, "target": 1}, 14, 0.011, 0.002, {"draft": 8, "target": 60})
        step.commits, step.tree, step.facts, step.choice = commits, tree, {"accepted": float(good)}, choice
        step.note = NOTE
        out.append(step)
        at = max(board) + 1
    end = End("complete", [board[p] for p in sorted(board)], "…", 0.2, 0.01)
    return Trace(header("tree", "Tree drafting", "speculative", lossless=True), out, table(), end)


def everything_else(steps: int = 6) -> Trace:
    """Branches, devices, routing and a picture: groups of the families to come."""
    out = []
    for i in range(steps):
        fates = ["alive", "alive", "pruned"] if i < steps - 1 else ["chosen", "finished", "pruned"]
        codes = np.where(np.arange(64) < 64 * (i + 1) / steps, (np.arange(64) * 37) % 512, -1)
        experts = np.array([[[(i + layer) % 8, (i * 3 + 1) % 8] for layer in range(4)]])
        weights = pack_exact(np.array([[[0.7, 0.3]] * 4]))
        step = Step(i, {"reward": 1, "target": 3}, 9, 0.02, 0.004, {"reward": 9, "target": 54})
        step.commits = Commits([12 + i], [15 + i], ["greedy"])
        for b in range(3):
            parent, scores = (i - 1) * 3 + min(b, 1) if i else -1, {"log-probability": -0.5 * i - b, "reward": 0.25 * b}
            step.branches.append(Branch(i * 3 + b, parent, [15 + i + b], i + 1, scores, fates[b]))
        step.intervals = [
            Interval("draft worker", i * 0.02, i * 0.02 + 0.012, f"draft {i}"),
            Interval("target worker", i * 0.02 + 0.01, i * 0.02 + 0.024, "verify", measured=i % 2 == 0),
        ]
        step.routing = [Routing("expert", [12 + i], [*range(4)], pack(experts), weights, units=8)]
        step.media = Media(pack(codes.reshape(8, 8).astype(np.int32)), [Box(1, 1, 3, 4, "whale")])
        step.memory = [
            Memory([12 + i, 13], [15 + i, 16], [0.75, 0.25], read=True, source="2-gram"),
            Memory([14], [15 + i, 20, 21], written=True),
        ]
        step.records = records(
            completions=_completions(i),
            sight=Sight(
                None if i else pack(np.linspace(0, 1, 32 * 128).reshape(32, 128), 0.0, 1.0),
                pack(np.eye(32)[[(4 * i + 2) % 32]] * 0.9, 0.0, 1.0),
                {"e": 3, HOSTILE[0]: 1},
                [0.9, 0.8, 0.1],
            ),
            opinions=Opinions(
                [1, 2],
                pack_exact(np.array([[20, 15 + i], [21, -1]])),
                pack_exact(np.array([[0.2, 0.5], [0.6, np.nan]])),
                pack_exact(np.array([[0.8, 0.1], [0.3, np.nan]])),
                ["everything", HOSTILE[0]],
                [0, 3],
                {"eta": 10.0, "alpha": 0.1, "temperature": 0.0},
            ),
            scene=_scene(i),
            vision=Vision(
                None if i else pack(np.linspace(0, 1, 12 * 12 * 3).reshape(12, 12, 3), 0.0, 1.0),
                [3, 3],
                pack(np.eye(9)[[i % 9, 4]], 0.0, 1.0),
                ["draft", HOSTILE[0]],
                {"picture": 9, "text": 2 + i},
                64,
                ["attribute"],
            ),
            truncation=_truncation(i),
            vote=_vote(),
        )
        out.append(step)
    end = End("complete", [15 + i for i in range(steps)], "…", 0.2, 0.01)
    return Trace(header("beam", "Beam search", "search"), out, table(), end)


def _completions(i: int) -> Completions:
    told = Completions(12 + i, "asked" if i == 0 else "open", names=["push_row", HOSTILE[1]], total=7, allowed=20)
    told.details, told.mass, told.line = ["def push_row(self)  book.py:9", HOSTILE[0]], 0.25, 3
    told.refused, told.refused_probabilities, told.held = [20, 21], [0.5, 0.125], i % 2 == 0
    told.name, told.exists, told.source = WORDS[12 + i] if i == 2 else "", i == 2 or None, "draft worker"
    return told


def _scene(i: int) -> Scene:
    told = Scene(("segment", "score", "heavy")[min(i, 2)], caption=HOSTILE[1], tau=0.8, bypass=False)
    told.readings = [Reading(HOSTILE[0], HOSTILE[1], 0.5, 0.9, 0.5, 0.74, "x", True)]
    if not i:
        told.picture = pack(np.linspace(0, 1, 16 * 96).reshape(16, 96), 0.0, 1.0)
        told.mask, told.boxes = pack(np.eye(16, 32), 0.0, 1.0), [Box(2, 4, 6, 20, HOSTILE[0])]
    return told


def _truncation(i: int) -> Truncation:
    return Truncation(
        **{"position": 12 + i, "tokens": [20, 15 + i, 22, 23], "probabilities": [0.4, 0.2, 0.1, 0.05]},
        **{"counted": [0.0, 0.918, 1.379, 1.62], "kept": 3 + 100 * (i == 2), "refused": 1, "mass": 0.7},
        **{"quantity": "entropy of the kept tokens", "unit": "bits", "line": 1.4, "whole": 3.5},
        others={"top-k 50": 50, "top-p 0.9": 1000 + i},
    )


def _vote() -> Vote:
    tallies = [
        Tally("all of it", [0.9, 0.2, 0.0], 0, 0.8, running=[0, 0, 0]),
        Tally(HOSTILE[1], [1.0, 1.0, 0.0], 0, 0.5, tied=True),
    ]
    told = Vote([0, 1, 2], [0, 1, -1], ["4", HOSTILE[0]], [0.9, 0.2, 0.1], tallies, mean=0.55)
    told.copies, told.removed = [-1, -1, -1], [False, True, False]
    told.modes, told.high = [Mode(0.6, 9.0, 0.9), Mode(0.4, 3.0, 0.2)], [0.99, 0.02, 1.0]
    return told


def records(**given: Record) -> dict[str, dict[str, Any]]:
    """As a step carries them."""
    return {name: packed_record(name, value, None) for name, value in given.items()}


def hostile() -> Trace:
    return masked(40, 8, pieces=[*table()[:3], *(Piece(i + 3, HOSTILE[i % len(HOSTILE)]) for i in range(40))])


def recorded() -> list[Trace]:
    return [
        Trace.from_json(gzip.decompress(path.read_bytes())) for path in sorted((ASSETS / "traces").glob("*.json.gz"))
    ]


def both_at_once() -> Trace:
    """Draft and target overlap in the second of two steps; the third has no calls."""
    lanes = [
        [Interval("draft", 0.0, 0.2), Interval("target", 0.2, 0.5)],
        [Interval("draft", 0.9, 1.3), Interval("target", 1.0, 1.2)],
        [],
    ]
    steps = []
    for i, work in enumerate(lanes):
        commits = Commits([3 + i], [5 + i], ["greedy"])
        steps.append(Step(i, {"target": 1}, 1, 0.5, 0.1, commits=commits, intervals=work))
    top = header("overlap", "Overlap", "speculative", prompt_ids=[3, 4, 5])
    return Trace(top, steps, table(), End("complete", [5, 6, 7], "", 2.0, 0.3))


def batches(trace: Trace) -> list[dict[str, Any]]:
    """The run as a server sends it while it is decoded."""
    whole = json.loads(trace.to_json())
    live, figures = Counting(trace.header), msgspec.to_builtins(of_run(trace))
    first = {
        "state": "running",
        "header": whole["header"],
        "pieces": whole["pieces"][:3],
        "figures": msgspec.to_builtins(live.over([])),
    }
    rest = [{"steps": [step], "pieces": whole["pieces"] if i == 0 else []} for i, step in enumerate(whole["steps"])]
    rest = [
        one | {"figures": msgspec.to_builtins(live.over([step]))} for one, step in zip(rest, trace.steps, strict=True)
    ]
    sent = [{"state": "queued"}, first, *rest, {"state": "done", "end": whole["end"], "figures": figures}]
    return [{"run": "r", "seq": seq, **one} for seq, one in enumerate(sent)]
