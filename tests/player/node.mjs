// Evaluates for tests/player/node.py: a line of JSON in, a line of JSON out. The first line is the text of the player's
// bundle; every other one names a module (of the bundle, a path in assets/client/ that begins with a slash, or one
// beside this file that begins with a dot), an expression, in which the module is M, and its arguments.
import { createInterface } from "node:readline";
import { asset } from "./assets.mjs";

async function answer({ module, expression, args }) {
  const outside = { "/": () => asset(module.slice(1)), ".": () => import(module) }[module[0]];
  const M = outside ? await outside() : dxModules.use(module.includes("/") ? module : `player/${module}`);
  const body = new Function("M", ...Object.keys(args), `return (${expression});`);
  return body(M, ...Object.values(args));
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const asked = JSON.parse(line);
  let told;
  try {
    if (typeof asked === "string") new Function(asked)();
    else told = { value: (await answer(asked)) ?? null };
  } catch (error) {
    told = { error: String(error?.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(told ?? {})}\n`);
}
