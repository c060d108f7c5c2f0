// Of a browser beside its document, as much as the tests of this folder need.
import { Element } from "../player/page.mjs";

/** A new element in another one. */
export function add(parent, tag, id = "", kind = "") {
  const node = new Element(tag);
  if (id) node.id = id;
  if (kind) node.setAttribute("class", kind);
  parent.append(node);
  return node;
}

/** What the browser stores from now on; denied: whoever asks gets an error. */
export function storage(entries = [], denied = false) {
  const store = new Map(entries);
  const asked = () => {
    if (denied) throw new Error("denied");
    return store;
  };
  globalThis.localStorage = {
    getItem: (key) => asked().get(key) ?? null,
    setItem: (key, value) => asked().set(key, value),
    removeItem: (key) => asked().delete(key),
  };
  return store;
}

/** What listens at the window, by type. */
export function listening() {
  const heard = new Map();
  globalThis.addEventListener = (type, act, { signal } = {}) => {
    heard.set(type, act);
    signal?.addEventListener("abort", () => heard.delete(type));
  };
  globalThis.removeEventListener = (type) => heard.delete(type);
  return heard;
}
