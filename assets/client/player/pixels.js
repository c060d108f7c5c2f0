// The picture that a model sees, from its record: as pixels, and as the mean colour of each patch.

import { unpack } from "./codec.js";

/** Gives a canvas so many rows and columns of pixels; colour: red, green and blue of the i-th, from 0 to 1. */
export function fill(canvas, [height, width], colour) {
  const pen = canvas.getContext("2d");
  Object.assign(canvas, { width, height });
  const image = pen.createImageData(width, height);
  for (let i = 0; i < height * width; i++) image.data.set([...colour(i).map((value) => value * 255), 255], 4 * i);
  pen.putImageData(image, 0, 0);
}

/** Draws pixels {shape: [rows, columns, 3], values from 0 to 1} on a canvas of their size. */
export function paint(canvas, pixels) {
  const { values, shape } = unpack(pixels);
  fill(canvas, shape, (i) => values.slice(3 * i, 3 * i + 3));
}

const addresses = new WeakMap();

/** The same as an image's address, painted once. */
export function pictureOf(pixels) {
  if (!addresses.has(pixels)) {
    const canvas = document.createElement("canvas");
    paint(canvas, pixels);
    addresses.set(pixels, canvas.toDataURL());
  }
  return addresses.get(pixels);
}

/** The mean colours of the patches of a grid [rows, columns], in reading order. */
export function means(pixels, [rows, columns]) {
  const { values, shape } = unpack(pixels),
    [height, width] = shape,
    sums = Array.from({ length: rows * columns }, () => [0, 0, 0, 0]);
  for (let i = 0; i < height * width; i++) {
    const row = Math.floor((Math.floor(i / width) * rows) / height),
      column = Math.floor(((i % width) * columns) / width);
    [...values.slice(3 * i, 3 * i + 3), 1].forEach((value, k) => (sums[row * columns + column][k] += value));
  }
  return sums.map(([r, g, b, n]) => `rgb(${[r, g, b].map((sum) => Math.round((255 * sum) / n)).join(" ")})`);
}
