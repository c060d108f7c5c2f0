// The page's own modules in node. They are named .js, which node takes for CommonJS unless told otherwise.
import { register } from "node:module";

const ASSETS = new URL("../../assets/client/", import.meta.url);
const RULE = `export const load = (url, context, next) =>
  next(url, url.startsWith(${JSON.stringify(ASSETS.href)}) ? { ...context, format: "module" } : context);`;

globalThis.dxViews ??= []; // a page is given them before its modules

register(`data:text/javascript,${encodeURIComponent(RULE)}`);

/** The module at that place in assets/client/. */
export const asset = (path) => import(new URL(path, ASSETS).href);
