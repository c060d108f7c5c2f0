// Views are loaded when a run first needs them; the page was given the list of them (explorer/export/bundle.py), made
// from their files. Some are in the page's scripts already (modules.js); a page saved to disk has those that its runs
// need.

const VIEWS = globalThis.dxViews.map(([file, name, title, place, needs]) => ({ file, name, title, place, needs }));

export const DETAILS = 100; // views with this place or a higher one stand under Details

/** Those that stand in a player, in their order, and those of the toolbar. */
export const IN_PANEL = VIEWS.filter(({ place }) => place !== "toolbar");
export const IN_TOOLBAR = VIEWS.filter(({ place }) => place === "toolbar");

/** Whether a run asks for a view: one that needs nothing, or of whose needs the run has one; "a+b" is both. */
export const wanted = ({ needs }, run) =>
  !needs.length || needs.some((all) => all.split("+").every((one) => run.has(one)));

const tables = new Map(); // by the name of a record

/** Views that lie beside a person's own methods. */
export function add(entries) {
  const known = new Set(IN_PANEL.map(({ file }) => file));
  IN_PANEL.push(...entries.filter(({ file }) => !known.has(file)));
  IN_PANEL.sort((a, b) => a.place - b.place);
}

/** The table of a record. */
export function tableOf(record) {
  const title = record.replaceAll("_", " "),
    entry = { file: "record", name: "RecordTable", title, place: 159, needs: [record] };
  return tables.get(record) ?? tables.set(record, entry).get(record);
}

/** Those in a panel that a run asks for: also a table of each record that no view shows. */
export function wantedBy(run) {
  const shown = (name) => IN_PANEL.some(({ needs }) => needs.some((all) => all.split("+").includes(name)));
  const plain = [...run.records].filter((name) => !shown(name));
  return [...IN_PANEL.filter((entry) => wanted(entry, run)), ...plain.map(tableOf)];
}

/** A promise of the module `views/file.js`. */
export const load = (file) => import(`../views/${file}.js`);

/** Hands the class of a view to `use`: at once where its module is here, else when it comes; `fail` if it does not. */
export function bring({ file, name }, use = () => {}, fail = () => {}) {
  const module = globalThis.dxModules?.now(`../views/${file}.js`, "player/loader.js");
  if (module) use(module[name]);
  else load(file).then((found) => use(found[name]), fail);
}
