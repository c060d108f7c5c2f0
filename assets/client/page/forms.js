// The forms of the slots, for those who read or change what they hold.

export const forms = new Map(); // by the number of the slot

const inSight = () => Number(document.querySelector("#controls")?.dataset.slots ?? 2);

/** {catalogue, values of the slots in sight}. */
export function knownForms() {
  const shown = [...forms.values()].filter(({ number }) => number < inSight()).sort((a, b) => a.number - b.number);
  return { catalogue: shown[0]?.catalogue ?? { models: [], methods: [] }, values: shown.map(({ value }) => value) };
}

/** Gives the first slots these values, as a person would. */
export const changeForms = (values) => values.forEach((value, number) => forms.get(number)?.become(value));
