// Traces of schema version 1, brought to version 2 by the rules of engines/core/trace/upgrade.py; a test compares the
// two. Recorded runs that a page fetches as files come in the form that they were recorded in.

import { unpacked } from "./codec.js";

const PERSON = new Set(["forced", "remasked", "withdrawn"]);
const AUTHORS = new Map([
  ["boosted", "credit"],
  ["filter", "filter"],
  ["constraint", "constraint"],
  ["reference", "reference"],
]);

/** A decoded trace in the form that the player reads. */
export function upgraded(trace) {
  const found = newest(trace);
  return Array.isArray(found?.steps) ? { ...found, steps: found.steps.map(toldApart) } : found;
}

/** What the target's own token behind the rows that were accepted is: "correction" where a row below the last of them
 * was refused, "bonus" where none hangs there, "" where nothing was drafted. */
export function behind({ parents, why }) {
  if (parents.length < 2) return "";
  const last = Math.max(0, why.lastIndexOf("accepted"));
  return parents.includes(last) ? "correction" : "bonus";
}

/** Until November 2026 corrections and bonus tokens were called alike, or the former by what they were drawn from. */
function toldApart(step) {
  const { commits, tree } = step ?? {};
  if (!tree || !commits?.causes?.some((cause) => cause === "bonus" || cause === "residual")) return step;
  const own = behind(tree) || ((tree.emitted_source ?? "argmax") === "argmax" ? "greedy" : "sampled"),
    causes = commits.causes.map((cause) => (cause === "bonus" || cause === "residual" ? own : cause));
  return { ...step, commits: { ...commits, causes } };
}

function newest(trace) {
  if (trace?.header?.schema !== 1) return trace;
  const { header, steps = [] } = trace,
    roles = (header.models ?? []).map((model) => model.role),
    lengths = new Map();
  return {
    ...trace,
    header: { ...header, schema: 2, missing: [...(header.missing ?? []), "work"] },
    steps: steps.map((step) => ({
      ...step,
      ...(step.commits && { commits: { ...step.commits, authors: authors(step, roles) } }),
      ...(step.branches && { branches: step.branches.map((branch) => grown(branch, lengths)) }),
      ...(step.routing?.length && { routing: packed(step.routing) }),
    })),
  };
}

/** Who proposed each token; where the step chose between models, the chosen one decided. */
function authors({ commits, tree, choice }, roles) {
  const { why = [], sources = [] } = tree ?? {},
    role = roles.includes(choice?.chosen) ? choice.chosen : (roles[0] ?? "model"),
    drafted = sources.filter((_, i) => why[i] === "accepted").values();
  return commits.causes.map((cause) => {
    if (PERSON.has(cause)) return "person";
    return cause === "accepted" ? drafted.next().value || "draft" : (AUTHORS.get(cause) ?? role);
  });
}

/** The one score gets a name; the length is what the branch and those it grew from added so far. */
function grown({ score, ...branch }, lengths) {
  const { id, parent, tokens } = branch;
  lengths.set(id, (lengths.get(id) ?? lengths.get(parent) ?? 0) + tokens.length);
  return { ...branch, length: lengths.get(id), ...(typeof score === "number" && { scores: { score } }) };
}

/** One record for each kind of the entries of version 1, which had one for each position and layer. */
function packed(entries) {
  const rising = (name, some) => [...new Set(some.map((entry) => entry[name]))].sort((a, b) => a - b);
  return [...new Set(entries.map(({ kind }) => kind))].map((kind) => {
    const some = entries.filter((entry) => entry.kind === kind),
      positions = rising("position", some),
      layers = rising("layer", some);
    const k = Math.max(...some.map(({ chosen }) => chosen.length)),
      shape = [positions.length, layers.length, k],
      count = positions.length * layers.length * k;
    const chosen = new Int32Array(count).fill(-1),
      weights = new Float32Array(count).fill(NaN);
    for (const entry of some) {
      const at = (positions.indexOf(entry.position) * layers.length + layers.indexOf(entry.layer)) * k;
      chosen.set(entry.chosen, at);
      weights.set(entry.weights ?? [], at);
    }
    const known = weights.some((weight) => !Number.isNaN(weight));
    return {
      kind,
      positions,
      layers,
      chosen: unpacked(chosen, shape),
      ...(known && { weights: unpacked(weights, shape) }),
    };
  });
}
