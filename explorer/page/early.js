// Asks for the modules of the first screen at once; `dxEarly` holds their addresses, relative to the page. A browser
// that does not know modulepreload loads each when it is imported.
for (const path of globalThis.dxEarly)
  document.head.append(
    Object.assign(document.createElement("link"), { rel: "modulepreload", href: new URL(path, document.baseURI).href }),
  );
