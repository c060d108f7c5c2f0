// Small runs that are made by hand or by chance, and the recorded ones.
import { readdirSync, readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { asset } from "./assets.mjs";

const { Run } = await asset("player/run.js");
const TRACES = new URL("../../assets/traces/", import.meta.url);
const STEP = { forwards: {}, tokens_fed: 0, model_seconds: 0, method_seconds: 0 };

/** Whole numbers from 0 to below `most`, the same for the same seed. */
export function chance(seed) {
  let at = seed * 7919 + 17;
  return (most) => {
    at = (at * 1103515245 + 12345) % 2147483648;
    return Math.floor((at / 2147483648) * most);
  };
}

/** A header in the form of a trace. */
export const header = ({ prompt, mask, canvas, eos, ...more } = {}) => ({
  schema: 3,
  ...(prompt && { prompt_ids: prompt }),
  ...(mask != null && { mask_id: mask }),
  ...(canvas != null && { canvas }),
  ...(eos && { eos_ids: eos }),
  ...more,
});

/** A run of steps that say what the test is about; the rest of each is nothing. */
export function made({ steps = [], pieces = [], end = null, ...more } = {}) {
  const run = new Run(header(more), pieces);
  run.addSteps(steps.map((step, index) => ({ ...STEP, index, ...step })));
  run.end = end;
  return run;
}
made.step = STEP;

/** The recorded run of that name as its file has it: without the figures that the page hands with it. */
export const recorded = (name) => Run.from(gunzipSync(readFileSync(new URL(`${name}.json.gz`, TRACES))).toString());

/** The names of all recorded runs. */
export const RECORDED = readdirSync(TRACES).flatMap((file) => (file.endsWith(".gz") ? [file.split(".")[0]] : []));
