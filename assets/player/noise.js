// Whether the seconds of two single runs can tell which was faster: the rules of explorer/figures/noise.py. A test
// compares the two.

import { NOISE } from "./definitions.js";
import { inAll } from "./race.js";

const { JUMP, SHARE, LEAST, ROOM } = NOISE;
const sum = (of) => Object.values(of ?? {}).reduce((n, one) => n + one, 0);

function median(values) {
  const all = values.sort((a, b) => a - b),
    half = all.length >> 1;
  return all.length % 2 ? all[half] : (all[half - 1] + all[half]) / 2;
}

/** The share of the model's seconds behind the first step that single steps took beyond the usual. */
function stalled({ steps, missing }) {
  const all = steps
    .slice(1)
    .map(({ model_seconds, forwards, work }) => [model_seconds, Math.max(1, sum(forwards)), sum(work)]);
  if (all.length < LEAST) return 0;
  const each = median(all.map(([seconds, calls]) => seconds / calls)),
    row = missing.has("work") ? 0 : median(all.map(([seconds, , work]) => seconds / Math.max(1, work)));
  let beyond = 0;
  for (const [seconds, calls, work] of all) {
    const usual = Math.max(each * calls, row * work);
    if (seconds > JUMP * usual) beyond += seconds - usual;
  }
  return beyond && beyond / all.reduce((n, [seconds]) => n + seconds, 0);
}

/** Whether others had the processor while the calls of a run went on. */
const displaced = ({ end, header }) =>
  end.processor_seconds > 0 &&
  header.models.every(({ device = "cpu" }) => device === "cpu") &&
  end.called_seconds > ROOM * end.processor_seconds;

/** Calls of the target, of all models, layer-rows; 0 for what was not recorded. */
function costs({ sums, missing }) {
  const { forwards, others, work } = sums.at(-1),
    known = missing.has("forwards") ? 0 : 1;
  return [known * forwards, known * (forwards + others), missing.has("work") ? 0 : work];
}

export function tooBusy(run, basis, apart) {
  if (Math.max(stalled(run), stalled(basis)) > SHARE || displaced(run) || displaced(basis)) return true;
  if (apart) return false;
  const [ours, plain] = [run, basis].map((one) => [
      inAll(one)?.at(-1) ?? one.tokens(one.length),
      one.sums.at(-1).model,
      costs(one),
    ]),
    shares = ours[2].flatMap((cost, i) =>
      cost && plain[2][i] && ours[0] && plain[0] ? [ours[0] / cost / (plain[0] / plain[2][i])] : [],
    );
  if (!shares.length || !ours[1] || !plain[0]) return false;
  return ours[0] * plain[1] > ROOM * Math.max(...shares) * plain[0] * ours[1];
}
