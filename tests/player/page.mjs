// A document that is enough for code which makes elements and listens: nothing of it is laid out or drawn.

const dashed = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const camel = (name) => (name.startsWith("--") ? name : name.replace(/-(.)/g, (_, letter) => letter.toUpperCase()));

class Style {
  setProperty(name, value) {
    this[camel(name)] = String(value);
  }

  getPropertyValue(name) {
    return this[camel(name)] ?? "";
  }

  removeProperty(name) {
    delete this[camel(name)];
  }
}

export class Element {
  constructor(tag) {
    Object.assign(this, { tagName: tag, childNodes: [], attributes: new Map(), heard: new Map(), parentElement: null });
    this.style = new Style();
    this.dataset = new Proxy(this, {
      get: (node, name) => node.getAttribute(`data-${dashed(name)}`) ?? undefined,
      set: (node, name, value) => node.setAttribute(`data-${dashed(name)}`, value) ?? true,
      deleteProperty: (node, name) => node.removeAttribute(`data-${dashed(name)}`) ?? true,
      has: (node, name) => node.attributes.has(`data-${dashed(name)}`),
    });
    this.classList = { toggle: (name, on) => this.toggleAttribute(`class-${name}`, on) };
  }

  get localName() {
    return this.tagName;
  }

  get children() {
    return this.childNodes.filter((node) => node instanceof Element);
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get lastChild() {
    return this.childNodes.at(-1) ?? null;
  }

  get textContent() {
    return this.childNodes.map((node) => node.textContent).join("");
  }

  set textContent(text) {
    this.replaceChildren(String(text));
  }

  get value() {
    if (this.tagName !== "select") return this.typed ?? this.getAttribute("value") ?? "";
    const values = this.querySelectorAll("option").map(({ value }) => value);
    return values.includes(this.typed) ? this.typed : this.typed === undefined ? (values[0] ?? "") : "";
  }

  set value(value) {
    this.typed = String(value);
  }

  get validity() {
    const [low, high] = ["min", "max"].map((name) => this.getAttribute(name)),
      n = Number(this.value);
    return { valid: (low === null || n >= Number(low)) && (high === null || n <= Number(high)) };
  }

  setAttribute(name, value) {
    this.attributes.set(name, String(value));
  }

  getAttribute(name) {
    return this.attributes.get(name) ?? null;
  }

  hasAttribute(name) {
    return this.attributes.has(name);
  }

  removeAttribute(name) {
    this.attributes.delete(name);
  }

  toggleAttribute(name, on = !this.attributes.has(name)) {
    if (on) this.attributes.set(name, "");
    else this.attributes.delete(name);
  }

  append(...nodes) {
    for (const node of nodes) {
      const one = node instanceof Element ? node : { nodeType: 3, textContent: String(node) };
      one.parentElement?.childNodes.splice(one.parentElement.childNodes.indexOf(one), 1);
      one.parentElement = this;
      this.childNodes.push(one);
    }
  }

  insertBefore(node, before) {
    this.append(node);
    this.childNodes.splice(this.childNodes.indexOf(before), 0, this.childNodes.pop());
  }

  prepend(...nodes) {
    this.replaceChildren(...nodes, ...this.childNodes);
  }

  replaceChildren(...nodes) {
    for (const node of this.childNodes) node.parentElement = null;
    this.childNodes = [];
    this.append(...nodes);
  }

  remove() {
    this.parentElement?.childNodes.splice(this.parentElement.childNodes.indexOf(this), 1);
    this.parentElement = null;
  }

  replaceWith(node) {
    const { parentElement } = this;
    parentElement.childNodes.splice(parentElement.childNodes.indexOf(this), 1, node);
    Object.assign(node, { parentElement });
    this.parentElement = null;
  }

  addEventListener(type, act) {
    this.heard.set(type, [...(this.heard.get(type) ?? []), act]);
  }

  removeEventListener(type, act) {
    this.heard.set(
      type,
      (this.heard.get(type) ?? []).filter((one) => one !== act),
    );
  }

  dispatchEvent(event) {
    if (event.target !== this) Object.defineProperty(event, "target", { value: this, configurable: true });
    for (let node = this; node; node = event.bubbles ? node.parentElement : null)
      for (const act of node.heard.get(event.type) ?? []) act(event);
  }

  click() {
    this.dispatchEvent(new Event("click", { bubbles: true }));
  }

  focus() {
    document.activeElement = this;
  }

  animate() {}

  getBoundingClientRect() {
    return this.box ?? { top: 0, bottom: 0, left: 0, right: 0, width: 0, height: 0 };
  }

  getClientRects() {
    return [this.getBoundingClientRect()];
  }

  matches(selector) {
    const [, tag, rest] = /^([\w-]*)(.*)$/.exec(selector),
      parts = rest.match(/#[\w-]+|\.[\w-]+|\[[^\]]+\]/g) ?? [];
    return (
      (!tag || tag === this.tagName) &&
      parts.every((part) => {
        const [, name, value] = /^\[([\w-]+)(?:="(.*)")?\]$/.exec(part) ?? [];
        if (part[0] === "#") return this.getAttribute("id") === part.slice(1);
        if (part[0] === ".") return (this.getAttribute("class") ?? "").split(" ").includes(part.slice(1));
        return value === undefined ? this.attributes.has(name) : this.getAttribute(name) === value;
      })
    );
  }

  /** Of elements below: compounds of a tag, ids, classes and attributes, one below the other. */
  querySelectorAll(selector) {
    const [first, ...rest] = selector.split(" "),
      below = this.children.flatMap((node) => [node, ...node.querySelectorAll("")]);
    if (!selector) return below;
    const found = below.filter((node) => node.matches(first));
    return rest.length ? [...new Set(found.flatMap((node) => node.querySelectorAll(rest.join(" "))))] : found;
  }

  querySelector(selector) {
    return this.querySelectorAll(selector)[0] ?? null;
  }

  closest(selector) {
    return this.matches(selector) ? this : (this.parentElement?.closest(selector) ?? null);
  }
}

for (const name of ["hidden", "disabled", "open"])
  Object.defineProperty(Element.prototype, name, {
    get() {
      return this.attributes.has(name);
    },
    set(on) {
      this.toggleAttribute(name, Boolean(on));
    },
  });
for (const [name, attribute] of Object.entries({ id: "id", className: "class", title: "title", type: "type" }))
  Object.defineProperty(Element.prototype, name, {
    get() {
      return this.getAttribute(attribute) ?? "";
    },
    set(value) {
      this.setAttribute(attribute, value);
    },
  });

/** The document, also as a global with what belongs to it. */
export function page() {
  const root = new Element("html"),
    made = (tag) => new Element(tag);
  Object.assign(root, { head: made("head"), body: made("body"), documentElement: root, activeElement: null });
  Object.assign(root, { createElement: made, createElementNS: (_, tag) => made(tag) });
  root.getElementById = (id) => root.querySelector(`#${id}`);
  root.append(root.head, root.body);
  Object.assign(globalThis, { document: root, window: globalThis });
  return root;
}
