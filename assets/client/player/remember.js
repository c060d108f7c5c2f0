// What a person opened or folded, kept by the browser for all pages of this address; a page from disk may have no
// memory.

const PREFIX = "dx-";

/** Whether the part of that name was left open (true) or folded (false); null where nobody touched it. */
export function remembered(name) {
  try {
    const kept = localStorage.getItem(PREFIX + name);
    return kept && kept === "open";
  } catch {
    return null;
  }
}

export function remember(name, open) {
  try {
    localStorage.setItem(PREFIX + name, open ? "open" : "folded");
  } catch {
    // then it is as at first the next time
  }
}
