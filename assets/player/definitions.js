// Made by `python -m explorer.definitions`; the words stand in explorer/definitions.py. Do not edit.

export const DEFINITIONS = {
  "steps": {"label": "Steps", "formula": "turns of the decoding loop"},
  "tokens": {"label": "Tokens", "formula": "ids emitted before the first end mark; prompt, end marks, padding and open masks are not counted", "terms": "{ids} places behind the prompt − {end_tokens} end marks − {padding} padding − {masks} masks", "counts": ["tokens"]},
  "forwards": {"label": "Forwards", "formula": "calls of any model; a batch of alternatives in one call is one forward", "terms": "{roles}", "counts": ["forwards"]},
  "tokens_per_forward": {"label": "Tokens per forward", "kind": "derived", "formula": "tokens ÷ forwards of all roles", "terms": "{tokens} ÷ {forwards}", "counts": ["tokens", "forwards"], "note": "end marks and padding do not count as tokens, although a masked model spends forwards on them", "needs": ["tokens", "forwards"]},
  "tokens_per_second": {"label": "Tokens per second", "kind": "derived", "formula": "tokens ÷ (model time + method time)", "terms": "{tokens} ÷ ({model_seconds} + {method_seconds})", "counts": ["tokens", "time"], "needs": ["tokens", "model_seconds", "method_seconds"]},
  "model_seconds": {"label": "Model time", "formula": "time in which a model call ran; warm-up excluded", "terms": "summed over {forwards} forwards", "counts": ["time"]},
  "method_seconds": {"label": "Method time", "formula": "the method's own work between model calls; recording and drawing excluded", "terms": "summed over {steps} steps", "counts": ["time"]},
  "tokens_fed": {"label": "Tokens fed", "formula": "rows × positions of all forwards, cached positions not counted", "terms": "summed over {forwards} forwards", "counts": ["fed"]},
  "busy_seconds": {"label": "Seconds", "kind": "derived", "formula": "model time + method time", "terms": "{model_seconds} + {method_seconds}", "counts": ["time"], "needs": ["model_seconds", "method_seconds"]},
  "revised": {"label": "Revised later", "kind": "derived", "formula": "tokens that stand here and are taken away by a later write, each counted once, by the first one", "terms": "{remasked} re-masked + {changed} changed + {cut} cut off", "counts": ["tokens"], "note": "read off the trace; it ends where the trace ends. Tokens behind an end mark that came later are not counted here", "needs": ["tokens", "steps"]},
  "missing": {"label": "Still missing", "kind": "derived", "formula": "tokens of the run's output that do not stand at their place yet", "terms": "{final} of the output − {kept} in their place", "counts": ["tokens"], "note": "the output is that of this run as it ended", "needs": ["tokens", "steps"]},
};
export const COUNTED = {
  "tokens": [["prompt tokens", "prompt", false], ["end marks", "end_tokens", false], ["padding behind the end mark", "padding", false], ["positions still masked", "masks", false], ["bonus tokens", "bonus", true]],
  "forwards": [["forwards of every role", "forwards", true], ["the warm-up forward", "", false]],
  "fed": [["positions of the prompt, whenever they are computed", "prompt", true], ["positions read from a cache", "", false]],
  "time": [["warm-up", "warmup_seconds", false], ["recording the steps", "record_seconds", false], ["sending and drawing", "", false]],
};
export const LOST = {"end_marks": ["end_tokens", "padding"], "forwards": ["forwards", "roles"], "prompt_ids": ["prompt"]};
export const KINDS = {"measured": "counted or clocked while the model ran", "derived": "computed from measured numbers by the formula shown beside it", "modelled": "computed under an assumption that is stated", "published": "taken from a paper, never mixed with ours"};
