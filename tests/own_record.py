"""A method of a person's own with a record and a view of it, as two files beside each other."""

from pathlib import Path

METHOD = '''"""Greedy decoding that tells how high each token stood."""

from engines.kit import CausalLM, Params, Probability, Record, Recorder, Steps, TokenId, max_new_tokens, method, top_ids


class Hops(Record):
    """How high the written token stood, and who was next. The rest is for the picture."""

    floor: int
    confidence: Probability
    tokens: list[TokenId]
    probabilities: list[Probability]
    by_name: dict[str, float] = {}


@method(
    "my-hops", title="My hops", family="own", paper="", summary="Greedy, with a record of its own.",
    needs="causal", params=[max_new_tokens()], signature="hops", emits={"commits", "note"}, records={"hops": Hops},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token per step."""
    ids, end = prompt, len(prompt) + p.max_new_tokens
    cache = model.new_cache(end)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        q = model.extend(ids[cache.length :], cache, last_only=True).logits[0].softmax(-1)  # [V]
        best = top_ids(q[None], 3)[0]
        token = int(best[0])
        top = [float(q[i]) for i in best]
        hops = Hops(len(ids) % 4, top[0], [int(i) for i in best], top, {"first": top[0], "rest": 1 - top[0]})
        edit = yield run.step(
            commits=([len(ids)], [token], "greedy", [top[0]]),
            records={"hops": lambda: hops},
            note="One token.",
        )
        ids = run.apply_edit(edit, [*ids, token], cache)
'''

VIEW = """import { el, setText } from "../player/dom.js";

export const view = { name: "Hops", title: "Hops", place: 30, needs: ["hops"] };

export class Hops {
  load(run, dom) {
    this.run = run;
    this.say = el("p", "dx-hops");
    dom.append(this.say);
  }

  show(t) {
    const hops = this.run.steps[t - 1]?.hops;
    setText(this.say, hops ? `floor ${hops.floor}` : "not yet");
  }
}
"""


def written(folder: Path, view: str = VIEW) -> Path:
    """The method file, with its view beside it where there is one."""
    file = folder / "my_hops.py"
    file.write_text(METHOD, "utf-8")
    if view:
        (folder / "hops.js").write_text(view, "utf-8")
    return file
