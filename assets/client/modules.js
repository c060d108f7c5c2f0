// The modules of a page that asks for few files, or works from disk, where browsers refuse modules: each is a function
// in a classic script (explorer/export/modules.py) and is run when it is first used. What the page lacks comes as a
// script from beside the first one; where that one stands in the page itself, nothing else can come.
globalThis.dxModules ??= (() => {
  const functions = new Map(),
    exported = new Map(),
    coming = new Map();
  const beside = globalThis.document?.currentScript?.src && new URL(".", document.currentScript.src);
  const use = (name) => {
    if (!exported.has(name))
      exported.set(
        name,
        functions.get(name)(use, (path) => load(path, name)),
      );
    return exported.get(name);
  };
  const script = (name) =>
    new Promise((resolve, reject) => {
      if (!beside) return reject(new Error(`this page does not carry ${name}`));
      const node = Object.assign(document.createElement("script"), {
        src: new URL(name, beside).href,
        onload: resolve,
      });
      node.onerror = () => reject(new Error(`${name} could not be loaded`));
      document.head.append(node);
    });
  const fetched = (name) => {
    if (!coming.has(name))
      coming.set(
        name,
        script(name).finally(() => coming.delete(name)),
      );
    return coming.get(name);
  };
  const named = (path, from) => new URL(path, `https://x/${from}`).pathname.slice(1);
  /** A promise of the module at this path, seen from the module `from`. */
  const load = async (path, from = "") => {
    const name = named(path, from);
    if (!functions.has(name)) await fetched(name);
    return use(name);
  };
  /** That module, if it is here and does not fail. */
  const now = (path, from = "") => {
    const name = named(path, from);
    try {
      return functions.has(name) ? use(name) : undefined;
    } catch (error) {
      console.error(error);
    }
  };
  const define = (name, make) => functions.has(name) || functions.set(name, make);
  return { define, use, load, now, script: fetched };
})();
