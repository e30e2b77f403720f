"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { at, colours } = data, n = at.length;
  const cosines = Uint8Array.from(atob(data.cosines), (c) => c.charCodeAt(0));
  const canvas = document.getElementById("map"), read = document.getElementById("read");
  canvas.width = canvas.height = n;
  const pen = canvas.getContext("2d");
  const picture = pen.createImageData(n, n);
  const rgb = colours.map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
  cosines.forEach((value, i) => {
    const [r, g, b] = value === 255 ? [128, 128, 128] : rgb[value];
    picture.data.set([r, g, b, 255], 4 * i);
  });
  let row = 0, column = 0;
  const say = () => {
    const value = cosines[row * n + column];
    const cosine = value === 255 ? "no direction" : (value / 127 - 1).toFixed(2);
    read.textContent = `positions ${at[row]} and ${at[column]}: ${cosine}`;
    pen.putImageData(picture, 0, 0);
    pen.fillStyle = "rgba(0,0,0,.35)";
    pen.fillRect(0, row, n, 1);
    pen.fillRect(column, 0, 1, n);
  };
  const go = (r, c) => {
    row = Math.max(0, Math.min(n - 1, r));
    column = Math.max(0, Math.min(n - 1, c));
    say();
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    go(Math.floor(n * (event.clientY - box.top) / box.height), Math.floor(n * (event.clientX - box.left) / box.width));
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const far = event.shiftKey ? 16 : 1;
    go(row + far * step[0], column + far * step[1]);
  });
  pen.putImageData(picture, 0, 0);
})();
