// The language of the page: what `?lang` says, else what was chosen before, else the first one of the browser that
// there is. The catalogue is fetched before any other module of ours is loaded, so that each finds its words. What
// Gradio draws, and what the server says, is put into the language here; the other modules say their own words with
// `tr`. Whatever a model wrote or a person typed stays as it is: it stands in players, fields and places marked
// translate="no", where nothing is looked at.

import { store, stored } from "../player/remember.js";

const KEY = "decoding-explorer-language";
export const LANGUAGES = { en: "English", "zh-Hans": "简体中文" };

/** The nearest of our languages, or nothing: "zh-CN" is zh-Hans, "en-GB" is en. */
const nearest = (wish = "") =>
  Object.keys(LANGUAGES).find((one) => one.split("-")[0] === String(wish).toLowerCase().split(/[-_]/)[0]);

export function chosen() {
  const wishes = [new URLSearchParams(location.search).get("lang"), stored(KEY), ...(navigator.languages ?? [])];
  return wishes.map((wish) => wish && nearest(wish)).find(Boolean) ?? "en";
}

async function catalogue(name) {
  const answer = await fetch(new URL(`files/words/${name}.json`, document.baseURI));
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

/** Fetches the catalogues of the page's language; English needs none. Without an answer the page stays English. */
export async function settle() {
  const language = chosen();
  if (language !== "en") {
    try {
      const [words, { texts, notes }] = await Promise.all([catalogue(language), catalogue(`prose-${language}`)]);
      globalThis.dxMessages = { language, messages: { ...words, ...texts }, notes };
    } catch (error) {
      console.warn(`No words for ${language}: ${error.message}`);
    }
  }
  const [{ tr }, { fitting, sentence }] = await Promise.all([import("../player/words.js"), import("./sentences.js")]);
  globalThis.dxWords = { tr, sentence, fitting };
  if (!globalThis.dxMessages) return;
  named();
  globalThis.dxNote = (await import("./prose.js")).note; // for the players, before any is mounted
  watch();
}

/** Says which language the document is in, also after Gradio has said it. */
export function named() {
  if (globalThis.dxMessages) document.documentElement.lang = globalThis.dxMessages.language;
}

/** Chooses a language for good. The page is loaded again, with the link to what it shows where there is one. */
export function choose(language, link = null) {
  store(KEY, language);
  const next = new URL(link ?? location.href);
  if (stored(KEY) === language) next.searchParams.delete("lang");
  else next.searchParams.set("lang", language);
  if (next.href === location.href) location.reload();
  else location.assign(next);
}

// What Gradio draws

// Of pictures only those that Gradio draws are read: their titles, axes and legends are words of the page.
const CLOSED =
  '.dx, .dx-panel, [translate="no"], [lang="en"]:not(html), textarea, script, style, pre, code, svg:not(.main-svg)';
const DOCS = "#docs-text"; // a text there has a heading and is English; that there is none is a sentence of ours
const BLOCKS = "p, li, h1, h2, h3, h4, td, th";
const PROSE = /(?:\b[a-z]{2,}[,;]? ){3}[a-z]{2,}\b/,
  WRITTEN = /[\u3400-\u9fff]/;
const ATTRIBUTES = ["aria-label", "title", "placeholder", "data-label"];
const INLINE = /\*\*(.+?)\*\*|\*(.+?)\*|`(.+?)`|\[(.+?)\]\((.+?)\)/g;
const plain = (text) => text.replace(INLINE, (_, strong, em, code, link) => strong ?? em ?? code ?? link);

function watch() {
  const { sentence, fitting } = globalThis.dxWords,
    formatted = new Map(), // paragraphs of several pieces, by what they say
    placed = []; // those with places
  for (const [key, text] of Object.entries(globalThis.dxMessages.messages))
    if (plain(key) === key) continue;
    else if (/\{\d+\}/.test(key)) placed.push(fitting(plain(key), text));
    else formatted.set(plain(key), text);
  const paragraph = (said) => said && (formatted.get(said) ?? placed.map((fit) => fit(said)).find(Boolean));

  const attributes = (node) => {
    for (const name of ATTRIBUTES) {
      const said = node.getAttribute(name),
        found = said && sentence(said);
      if (found && found !== said) node.setAttribute(name, found);
    }
  };
  const visit = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      const said = node.data.trim(),
        flat = said.replace(/\s+/g, " "), // a paragraph of a text may go over several lines
        found = said && /[a-z]/i.test(said) ? sentence(flat) : flat;
      if (found !== flat) node.data = node.data.replace(said, () => found);
    } else if (node.nodeType === Node.ELEMENT_NODE && !node.matches(CLOSED)) {
      if (node.matches(DOCS)) told(node);
      attributes(node);
      const said = node.childElementCount && node.matches(BLOCKS) ? node.textContent.trim().replace(/\s+/g, " ") : "",
        text = paragraph(said);
      if (text) node.replaceChildren(...pieces(text));
      else if (PROSE.test(said) && !WRITTEN.test(said))
        node.lang = "en"; // as a whole, not its emphasised words alone
      else for (const child of node.childNodes) visit(child);
    }
  };
  const look = (node) => {
    const docs = node.parentElement?.closest(DOCS);
    if (docs) told(docs);
    const within = node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement;
    if (within && !within.closest(CLOSED)) visit(node);
  };
  const watcher = new MutationObserver((changes) => {
    for (const { type, target, addedNodes } of changes)
      if (type === "childList") for (const node of addedNodes) look(node);
      else if (type === "characterData") look(target);
      else if (!target.closest(CLOSED)) attributes(target);
  });
  look(document.body);
  watcher.observe(document.body, {
    subtree: true,
    childList: true,
    characterData: true,
    attributeFilter: ATTRIBUTES,
  });
}

/** Says once, above a text of Docs, that it is English. */
function told(docs) {
  const text = docs.querySelector("h1")?.parentElement;
  if (!text) return docs.removeAttribute("data-said");
  text.lang = "en";
  docs.setAttribute("data-said", globalThis.dxWords.tr`This text is in English only.`);
}

/** The nodes of a paragraph in the little Markdown of the catalogue. */
function pieces(text) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, strong, em, code, link, href] = found;
    nodes.push(text.slice(from, found.index));
    const node = document.createElement(strong ? "strong" : em ? "em" : code ? "code" : "a");
    node.textContent = strong ?? em ?? code ?? link;
    if (href && /^https:/.test(href)) Object.assign(node, { href, target: "_blank", rel: "noopener noreferrer" });
    nodes.push(node);
    from = found.index + all.length;
  }
  return [...nodes, text.slice(from)];
}
