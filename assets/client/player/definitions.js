// What numbers are called and how they are obtained, as the page was given it: explorer/figures/definitions.py.

const given = globalThis.dxDefinitions;

export const DEFINITIONS = given.DEFINITIONS;
export const COUNTED = given.COUNTED;
export const LOST = given.LOST;
export const KINDS = given.KINDS;
