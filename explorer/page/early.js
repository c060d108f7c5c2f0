// The keys of a lecture that are pressed before its view is there wait for it in `dxKeys`.
if (new URLSearchParams(location.search).has("lecture")) {
  globalThis.dxKeys = [];
  addEventListener("keydown", (event) => globalThis.dxKeys?.push(event), true);
}

// Asks for the modules of the first screen at once; `dxEarly` holds their addresses, relative to the page. A browser
// that does not know modulepreload loads each when it is imported.
for (const path of globalThis.dxEarly)
  document.head.append(
    Object.assign(document.createElement("link"), { rel: "modulepreload", href: new URL(path, document.baseURI).href }),
  );
