// Evaluates for tests/player/node.py: a line of JSON in, a line of JSON out. The first line is the text of the player's
// bundle; every other one names a module (of the bundle, or a path in assets/ that begins with a slash, or one beside this
// file that begins with a dot), an expression, in which the module is M, and its arguments.
import { createInterface } from "node:readline";
import { asset } from "./assets.mjs";

let modules = null;

async function answer({ module, expression, args }) {
  const outside = { "/": () => asset(module.slice(1)), ".": () => import(module) }[module[0]];
  const M = outside ? await outside() : modules[module];
  const body = new Function("M", "modules", ...Object.keys(args), `return (${expression});`);
  return body(M, modules, ...Object.values(args));
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const asked = JSON.parse(line);
  let told;
  try {
    if (modules === null) modules = new Function(`${asked}\nreturn modules;`)();
    else told = { value: (await answer(asked)) ?? null };
  } catch (error) {
    told = { error: String(error?.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(told ?? {})}\n`);
}
