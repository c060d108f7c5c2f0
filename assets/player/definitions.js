// Made by `python -m explorer.figures.definitions` from the words in that file. Do not edit.

export const DEFINITIONS = {
  steps: {
    label: "Steps",
    formula: "iterations of the decoding loop",
  },
  tokens: {
    label: "Tokens",
    formula: "ids emitted before the first end mark; prompt, end marks, padding and open masks are not counted",
    terms: "{ids} (positions after the prompt) − {end_tokens} (end mark) − {padding} (padding) − {masks} (masks)",
    counts: ["tokens"],
  },
  all_tokens: {
    label: "Tokens of all samples",
    formula: "tokens that were added to any sample or path of the answer; end marks are not counted",
    note: "the calls of this run served all of them; the answer is one",
    needs: ["tokens"],
  },
  target_calls: {
    label: "Model calls",
    formula: "calls of the chosen model; a batch of alternatives in one call is one call",
    terms: "all calls: {roles}",
    counts: ["calls"],
    needs: ["forwards"],
  },
  draft_calls: {
    label: "Draft calls",
    formula: "calls of all other models of the run: a draft, a small model, an encoder",
    terms: "all calls: {roles}; the target's are left out",
    needs: ["forwards"],
  },
  tokens_per_call: {
    label: "Tokens per model call",
    kind: "derived",
    formula: "tokens ÷ model calls",
    terms: "{gained} ÷ {target_calls}",
    counts: ["gained", "calls"],
    note: "end marks and padding do not count as tokens, although a masked model spends calls on them; draft " +
      "calls are shown beside it; of a run with several samples the tokens of all count, since the calls " +
      "served all",
    needs: ["tokens", "forwards"],
  },
  tokens_per_second: {
    label: "Tokens per second",
    kind: "derived",
    formula: "tokens ÷ (model time + method time)",
    terms: "{gained} ÷ ({model_seconds} + {method_seconds})",
    counts: ["gained", "time"],
    note: "of a run with several samples the tokens of all count",
    needs: ["tokens", "model_seconds", "method_seconds"],
  },
  model_seconds: {
    label: "Model time",
    formula: "time in which a model call ran; warm-up excluded",
    terms: "summed over all calls: {roles}",
    counts: ["time"],
  },
  waiting_seconds: {
    label: "Waiting for the server",
    formula: "time until each piece of the answer was here: the server's queue, its model, its own work and the " +
      "network together; connecting excluded",
    terms: "summed over {steps} arrivals",
    needs: ["model_seconds"],
  },
  method_seconds: {
    label: "Method time",
    formula: "the method's own work between model calls; recording and drawing excluded",
    terms: "summed over {steps} steps",
    counts: ["time"],
  },
  tokens_fed: {
    label: "Tokens fed",
    formula: "rows × positions of all model calls, cached positions not counted",
    terms: "summed over all calls: {roles}",
    counts: ["fed"],
  },
  work: {
    label: "Work",
    formula: "rows × transformer layers that were really computed, all models together",
    terms: "{work_roles}",
    note: "an early exit, a skipped layer or a short draft pays only for the layers that it ran",
  },
  busy_seconds: {
    label: "Seconds",
    kind: "derived",
    formula: "model time + method time",
    terms: "{model_seconds} + {method_seconds}",
    counts: ["time"],
    needs: ["model_seconds", "method_seconds"],
  },
  revised: {
    label: "Revised later",
    kind: "derived",
    formula: "tokens written by now that a later write replaces or removes, each counted once, by the first one",
    terms: "{remasked} re-masked + {changed} changed + {cut} cut off",
    counts: ["tokens"],
    note: "read off the trace; it ends where the trace ends. Tokens after an end mark that came later are not " +
      "counted here",
    needs: ["tokens", "steps"],
  },
  missing: {
    label: "Still missing",
    kind: "derived",
    formula: "tokens of the run's output that are not in their place yet",
    terms: "{final} of the output − {kept} in their place",
    counts: ["tokens"],
    note: "the output is that of this run as it ended",
    needs: ["tokens", "steps"],
  },
  acceptance_rate_of_drafted: {
    label: "Acceptance rate",
    kind: "derived",
    formula: "Σ accepted ÷ Σ drafted nodes",
    note: "over the steps that verified a draft tree; the root row is no drafted node",
  },
  same_tokens: {
    label: "Text",
    kind: "derived",
    formula: "the emitted ids of both runs before their first end mark, compared in order",
  },
  same_characters: {
    label: "Text",
    kind: "derived",
    formula: "the texts of both runs, character by character, since their models have other tokenizers",
  },
  speed: {
    label: "Tokens per second over those of another run",
    kind: "derived",
    formula: "tokens per second of this run ÷ tokens per second of the other; each is tokens ÷ (model time + " +
      "method time) of the whole run",
    note: "the reading of the prompt is inside; warm-up, recording and drawing are left out. One run of each on" +
      " the machine below: no benchmark",
  },
  too_busy: {
    label: "this machine was too busy to tell the speed",
    kind: "derived",
    formula: "no ratio: single steps took far longer than the others of their run, other programs had the " +
      "processor for much of the calls, or the ratio is more than the calls and the work of the two runs " +
      "explain. Run both again on a quiet machine, or use decoding-explorer bench, which repeats",
  },
};
export const COUNTED = {
  tokens: [
    ["prompt tokens", "prompt", false],
    ["end marks", "end_tokens", false],
    ["padding after the end mark", "padding", false],
    ["positions still masked", "masks", false],
    ["bonus tokens", "bonus", true],
    ["corrections after a refusal", "corrections", true],
  ],
  calls: [
    ["calls of the chosen model", "target_calls", true],
    ["calls of a draft or another model", "draft_calls", false],
    ["the warm-up call", "", false],
  ],
  fed: [
    ["positions of the prompt, whenever they are computed", "prompt", true],
    ["positions read from a cache", "", false],
  ],
  time: [
    ["warm-up", "warmup_seconds", false],
    ["recording the steps", "record_seconds", false],
    ["sending and drawing", "", false],
  ],
  gained: [
    ["prompt tokens", "prompt", false],
    ["end marks", "end_tokens", false],
    ["padding after the end mark", "padding", false],
    ["positions still masked", "masks", false],
    ["bonus tokens", "bonus", true],
    ["corrections after a refusal", "corrections", true],
  ],
};
export const LOST = {
  end_marks: ["end_tokens", "padding"],
  forwards: ["target_calls", "draft_calls", "roles"],
  work: ["work", "work_roles"],
  prompt_ids: ["prompt"],
  tokens: ["tokens", "gained"],
};
export const KINDS = {
  measured: "counted or clocked while the model ran",
  derived: "computed from measured numbers by the formula shown beside it",
  modelled: "computed under an assumption that is stated",
  published: "taken from a paper, never mixed with ours",
};
export const NOISE = {
  JUMP: 10,
  SHARE: 0.2,
  LEAST: 4,
  ROOM: 1.5,
};
