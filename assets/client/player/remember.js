// What the browser keeps for all pages of this address. A page from disk may have no memory, nor has a browser that
// keeps nothing.

const PREFIX = "dx-";

/** What is kept under a key: null where it is nothing, `otherwise` where nothing can be kept. */
export function stored(key, otherwise = null) {
  try {
    return localStorage.getItem(key);
  } catch {
    return otherwise;
  }
}

/** Keeps a text under a key, or forgets what is there (null). */
export function store(key, text) {
  try {
    if (text === null) localStorage.removeItem(key);
    else localStorage.setItem(key, text);
  } catch {
    // then it holds until the page is closed
  }
}

/** Whether the part of that name was left open (true) or folded (false); null where nobody touched it. */
export function remembered(name) {
  const kept = stored(PREFIX + name);
  return kept && kept === "open";
}

export const remember = (name, open) => store(PREFIX + name, open ? "open" : "folded");
