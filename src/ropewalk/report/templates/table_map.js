"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const canvas = $("map"), pen = canvas.getContext("2d");
  const n = data.points, k = data.neighbours, none = 0xffffffff;
  const number = (value) => value.toLocaleString("en-US");
  const add = (parent, name, text, className) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    parent.append(node);
    return node;
  };

  // ---- what was packed
  const kinds = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i16: Int16Array };
  const unpack = async () => {
    const bytes = Uint8Array.from(atob(data.packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const whole = await new Response(stream).arrayBuffer();
    return Object.fromEntries(data.parts.map((p) => [p.name, new kinds[p.kind](whole, p.at, p.count)]));
  };
  let ids, places, norms, kindOf, clusterOf, near, cosines, names, folded, pointOf, rank, grid;

  // ---- colours, of the page's theme
  const dark = matchMedia("(prefers-color-scheme:dark)");
  const hues = {
    light: ["#1f62a3", "#c2571a", "#35885a", "#8349ad", "#a98406", "#12899b", "#c03a68", "#6d7683", "#7d5a38", "#5866d8", "#7f9a16", "#c877a8"],
    dark: ["#6db0ee", "#f0934f", "#66c791", "#bf8ee4", "#dfc04b", "#4ec6d6", "#ef7a9f", "#a1a9b6", "#c9a27a", "#98a4ff", "#bcd95a", "#eeb4d9"],
  };
  const stops = { light: ["#c2571a", "#d9b98c", "#5b93c7", "#17477a"], dark: ["#a8491a", "#e0a468", "#9cc4ea", "#e6f2ff"] };
  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const theme = () => (dark.matches ? "dark" : "light");
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const hue = (i) => {
    const own = hues[theme()];
    if (i < own.length) return rgb(own[i]);
    // Beyond the named ones: by the golden angle, so that neighbours in the list differ.
    const h = (i * 137.508) % 360, s = 0.52, l = dark.matches ? 0.66 : 0.42, a = s * Math.min(l, 1 - l);
    return [0, 8, 4].map((m) => { const t = (m + h / 30) % 12; return Math.round(255 * (l - a * Math.max(-1, Math.min(t - 3, 9 - t, 1)))); });
  };
  const shade = (t) => {
    const own = stops[theme()].map(rgb), at = Math.min(t * (own.length - 1), own.length - 1.0001), i = Math.floor(at);
    return own[i].map((c, j) => Math.round(c + (at - i) * (own[i + 1][j] - c)));
  };

  // ---- groups: what points are coloured by, and which are shown
  let way = "kind", groups = [], groupOf, hidden = new Set();
  const SHADES = 64;
  const regroup = () => {
    groupOf = new Uint16Array(n);
    hidden = new Set();
    if (way === "norm") {
      groups = Array.from({ length: SHADES }, (_, i) => ({ colour: shade(i / (SHADES - 1)) }));
      for (let i = 0; i < n; i++) groupOf[i] = Math.min(SHADES - 1, Math.floor(SHADES * rank[i] / n));
      return legend();
    }
    const source = way === "cluster" ? clusterOf : kindOf;
    const counts = new Map();
    for (let i = 0; i < n; i++) counts.set(source[i], (counts.get(source[i]) ?? 0) + 1);
    const order = [...counts].sort((a, b) => (way === "cluster" ? a[0] - b[0] : b[1] - a[1] || a[0] - b[0]));
    const place = new Map(order.map(([value], i) => [value, i]));
    groups = order.map(([value, count], i) => ({
      count,
      colour: way === "cluster" && value === 65535 ? rgb(theme() === "dark" ? "#6a707b" : "#a0a4ab") : hue(i),
      name: way === "cluster" ? (value === 65535 ? "in no cluster" : data.clusters[value].name) : data.kinds[value],
    }));
    for (let i = 0; i < n; i++) groupOf[i] = place.get(source[i]);
    legend();
  };
  const legend = () => {
    const list = $("legend");
    list.replaceChildren();
    if (way === "norm") {
      const bar = add(add(list, "li"), "canvas");
      bar.width = SHADES;
      bar.height = 1;
      const stroke = bar.getContext("2d");
      groups.forEach((g, i) => { stroke.fillStyle = `rgb(${g.colour})`; stroke.fillRect(i, 0, 1, 1); });
      const ends = add(list, "li", undefined, "ends");
      const sorted = Array.from(norms).sort((a, b) => a - b);
      const at = (share) => normOf(sorted[Math.min(n - 1, Math.floor(share * n))]).toPrecision(3);
      for (const words of [`least ${at(0)}`, `median ${at(0.5)}`, `greatest ${at(1)}`]) add(ends, "span", words);
      return;
    }
    groups.forEach((g, i) => {
      const button = add(add(list, "li"), "button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const dot = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      dot.setAttribute("width", 12);
      dot.setAttribute("height", 12);
      const circle = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      for (const [name, value] of [["cx", 6], ["cy", 6], ["r", 5], ["fill", `rgb(${g.colour})`]]) circle.setAttribute(name, value);
      dot.append(circle);
      button.append(dot);
      add(button, "span", g.name);
      add(button, "small", number(g.count));
      button.addEventListener("click", () => {
        if (!hidden.delete(i)) hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        draw();
      });
    });
  };
  const normOf = (step) => data.norms[0] + (data.norms[1] - data.norms[0]) * step / 65535;

  // ---- the view: what lies in the middle, and pixels to a step
  let width = 0, height = 0, ratio = 1, middle = [0, 0], scale = 1, fitting = 1;
  const fit = () => 0.46 * Math.min(width / reach[0], height / reach[1]);
  let reach = [32767, 32767];
  const X = (i) => width / 2 + (places[i] - middle[0]) * scale;
  const Y = (i) => height / 2 - (places[n + i] - middle[1]) * scale;
  const size = () => Math.min(7, Math.max(1.6, (n > 60000 ? 1.7 : n > 20000 ? 2.1 : 3) * Math.pow(scale / fitting, 0.42)));
  const resize = () => {
    const whole = Math.abs(scale - fitting) < 1e-9 * fitting;
    ratio = Math.min(2, devicePixelRatio || 1);
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    fitting = fit();
    if (whole || !width) scale = fitting;
    // At once: a canvas of a new size is empty.
    paint();
  };
  const zoom = (factor, x = width / 2, y = height / 2) => {
    const next = Math.min(fitting * 4000, Math.max(fitting * 0.5, scale * factor));
    middle = [middle[0] + (x - width / 2) * (1 / scale - 1 / next), middle[1] - (y - height / 2) * (1 / scale - 1 / next)];
    scale = next;
    draw();
  };
  const move = (dx, dy) => { middle = [middle[0] - dx / scale, middle[1] + dy / scale]; draw(); };
  const whole = () => { middle = [0, 0]; scale = fitting = fit(); draw(); };

  // ---- drawing: points into pixels, blended one over the other; then rings, lines and names
  let selected = -1, hovered = -1, matches = [], waiting = 0, picture;
  const order = () => { // so that no group lies over all others
    const shuffled = Uint32Array.from({ length: n }, (_, i) => i);
    let seed = 1;
    for (let i = n - 1; i > 0; i--) {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      const j = seed % (i + 1), held = shuffled[i];
      shuffled[i] = shuffled[j];
      shuffled[j] = held;
    }
    return shuffled;
  };
  let shuffled;
  const stamp = (radius) => { // how much of each pixel a disc covers
    const r = Math.max(0.5, radius), side = Math.ceil(r) * 2 + 1, half = (side - 1) / 2, cover = [];
    for (let y = -half; y <= half; y++)
      for (let x = -half; x <= half; x++) {
        const a = Math.max(0, Math.min(1, r + 0.5 - Math.hypot(x, y)));
        if (a > 0) cover.push([x, y, a]);
      }
    return cover;
  };
  const draw = () => { if (places && !waiting) waiting = requestAnimationFrame(() => { waiting = 0; paint(); }); };
  const paint = () => {
    const w = canvas.width, h = canvas.height, back = rgb(variable("--bg"));
    if (!picture || picture.width !== w || picture.height !== h) picture = pen.createImageData(w, h);
    const pixels = picture.data;
    new Uint32Array(pixels.buffer).fill((255 << 24) | (back[2] << 16) | (back[1] << 8) | back[0]);
    const dim = matches.length > 0 || selected >= 0;
    const strength = (dim ? (dark.matches ? 0.42 : 0.34) : 0.78) * (scale / fitting > 6 ? 1.1 : 1);
    const cover = stamp(size() * ratio / 2), colours = groups.map((g) => g.colour);
    let seen = 0;
    const inView = [];
    for (let o = 0; o < n; o++) {
      const i = shuffled[o], group = groupOf[i];
      if (hidden.size && hidden.has(group)) continue;
      const px = Math.round(X(i) * ratio), py = Math.round(Y(i) * ratio);
      if (px < -9 || py < -9 || px > w + 9 || py > h + 9) continue;
      if (seen++ < 900) inView.push(i);
      const [r, g, b] = colours[group];
      for (let c = 0; c < cover.length; c++) {
        const x = px + cover[c][0], y = py + cover[c][1];
        if (x < 0 || y < 0 || x >= w || y >= h) continue;
        const a = cover[c][2] * strength, at = 4 * (y * w + x);
        pixels[at] += (r - pixels[at]) * a;
        pixels[at + 1] += (g - pixels[at + 1]) * a;
        pixels[at + 2] += (b - pixels[at + 2]) * a;
      }
    }
    pen.putImageData(picture, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    over(seen, inView);
    pen.setTransform(1, 0, 0, 1, 0, 0);
  };
  const over = (seen, inView) => {
    const ink = variable("--ink"), back = variable("--bg"), accent = variable("--orange");
    pen.lineWidth = 1;
    pen.strokeStyle = variable("--line");
    pen.beginPath();
    // Where both axes are zero: the mean, when it was taken off.
    const zx = Math.round(width / 2 + (data.origin[0] - middle[0]) * scale) + 0.5, zy = Math.round(height / 2 - (data.origin[1] - middle[1]) * scale) + 0.5;
    pen.moveTo(zx, 0); pen.lineTo(zx, height); pen.moveTo(0, zy); pen.lineTo(width, zy);
    pen.stroke();
    const taken = [];
    const write = (i, strong) => {
      const x = X(i), y = Y(i);
      if (x < -40 || y < -20 || x > width + 40 || y > height + 20) return;
      const text = names[i].length > 26 ? names[i].slice(0, 25) + "…" : names[i];
      pen.font = `${strong ? "600 13.5" : "12"}px system-ui,sans-serif`;
      const wide = pen.measureText(text).width, gap = strong ? 12 : 7, box = [x + gap - 2, y - 8, x + gap + 2 + wide, y + 8];
      if (!strong && taken.some((t) => box[0] < t[2] && box[2] > t[0] && box[1] < t[3] && box[3] > t[1])) return;
      taken.push(box);
      pen.lineWidth = 3.5;
      pen.lineJoin = "round";
      pen.strokeStyle = back;
      pen.fillStyle = ink;
      pen.textBaseline = "middle";
      pen.strokeText(text, x + gap, y);
      pen.fillText(text, x + gap, y);
    };
    const ring = (i, radius, colour, heavy) => {
      pen.beginPath();
      pen.arc(X(i), Y(i), radius, 0, 7);
      pen.lineWidth = heavy;
      pen.strokeStyle = colour;
      pen.stroke();
    };
    const dot = (i, radius, colour) => {
      pen.beginPath();
      pen.arc(X(i), Y(i), radius, 0, 7);
      pen.fillStyle = colour;
      pen.fill();
      pen.lineWidth = 1.25;
      pen.strokeStyle = back;
      pen.stroke();
    };
    const large = Math.max(3.2, size() * 0.75);
    for (const i of matches.slice(0, 5000)) dot(i, large, accent);
    if (selected >= 0) {
      const around = neighboursOf(selected);
      pen.lineWidth = 1.1;
      pen.strokeStyle = ink;
      pen.globalAlpha = 0.5;
      pen.beginPath();
      for (const [j] of around) { pen.moveTo(X(selected), Y(selected)); pen.lineTo(X(j), Y(j)); }
      pen.stroke();
      pen.globalAlpha = 1;
      for (const [j] of around) dot(j, large, `rgb(${groups[groupOf[j]].colour})`);
      dot(selected, large + 1.5, `rgb(${groups[groupOf[selected]].colour})`);
      ring(selected, large + 4.5, ink, 2);
      write(selected, true);
      for (const [j] of around) write(j, false);
    }
    if (hovered >= 0) ring(hovered, large + 2.5, ink, 1.6);
    for (const i of matches.slice(0, 60)) write(i, false);
    if (selected < 0 && !matches.length)
      for (const c of data.clusters) for (const row of c.rows.slice(0, 1)) { const i = pointOf.get(row); if (i !== undefined && !hidden.has(groupOf[i])) write(i, false); }
    if (seen <= 700) for (const i of inView.slice(0, 260)) write(i, false);
  };

  // ---- finding the point under a place: cells of the map, each with its points
  const CELLS = 160;
  const cell = (step) => Math.max(0, Math.min(CELLS - 1, Math.floor((step + 32768) / 65536 * CELLS)));
  const makeGrid = () => {
    const starts = new Uint32Array(CELLS * CELLS + 1), points = new Uint32Array(n);
    const of = (i) => cell(places[n + i]) * CELLS + cell(places[i]);
    for (let i = 0; i < n; i++) starts[of(i) + 1]++;
    for (let c = 0; c < CELLS * CELLS; c++) starts[c + 1] += starts[c];
    const next = starts.slice();
    for (let i = 0; i < n; i++) points[next[of(i)]++] = i;
    return { starts, points };
  };
  const pointAt = (x, y, within) => {
    const at = [middle[0] + (x - width / 2) / scale, middle[1] - (y - height / 2) / scale], far = within / scale;
    let best = -1, least = within * within;
    for (let r = cell(at[1] - far); r <= cell(at[1] + far); r++)
      for (let c = cell(at[0] - far); c <= cell(at[0] + far); c++)
        for (let p = grid.starts[r * CELLS + c]; p < grid.starts[r * CELLS + c + 1]; p++) {
          const i = grid.points[p], d = (X(i) - x) ** 2 + (Y(i) - y) ** 2;
          if (d < least && !(hidden.size && hidden.has(groupOf[i]))) { least = d; best = i; }
        }
    return best;
  };
  const neighboursOf = (i) => {
    const found = [];
    for (let j = 0; j < k; j++) if (near[i * k + j] !== none) found.push([near[i * k + j], cosines[i * k + j] / 10000]);
    return found;
  };

  // ---- choosing a point
  const still = matchMedia("(prefers-reduced-motion:reduce)");
  const glide = (to, next) => {
    const from = middle, before = scale, begin = performance.now();
    const step = (now) => {
      const t = still.matches ? 1 : Math.min(1, (now - begin) / 380), e = 1 - (1 - t) ** 3;
      scale = before * (next / before) ** e;
      middle = [from[0] + (to[0] - from[0]) * e, from[1] + (to[1] - from[1]) * e];
      draw();
      if (t < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  };
  const choose = (i, { go = false, hash = true } = {}) => {
    selected = i;
    $("chosen").hidden = i < 0;
    if (i >= 0) tell(i);
    if (hash) history.replaceState(null, "", i < 0 ? location.pathname + location.search : `#id=${ids[i]}`);
    if (i >= 0 && go) {
      // So near that its neighbours just fit around it.
      const apart = (from) => Math.max(200, ...neighboursOf(i).map(([j]) => Math.abs(places[from + j] - places[from + i])));
      const close = 0.42 * Math.min(width / apart(0), height / apart(n));
      glide([places[i], places[n + i]], Math.max(fitting, Math.min(fitting * 12, close)));
    }
    draw();
  };
  const tell = (i) => {
    $("name").textContent = names[i];
    const about = $("about");
    about.replaceChildren();
    const say = (name, text) => { add(about, "dt", name); add(about, "dd", text); };
    say("id", String(ids[i]));
    if (data.kinds[kindOf[i]] !== "row") say("kind", data.kinds[kindOf[i]]);
    say("norm", `${normOf(norms[i]).toPrecision(4)}, above ${Math.floor(100 * rank[i] / n)} % of the rows`);
    if (clusterOf) say("cluster", clusterOf[i] === 65535 ? "none" : data.clusters[clusterOf[i]].name);
    const list = $("near"), around = neighboursOf(i);
    list.replaceChildren();
    $("near-title").textContent = around.length ? "Nearest of the rows shown, by cosine"
      : k ? "It has no direction, and no neighbours." : "Neighbours were not asked for.";
    for (const [j, cosine] of around) {
      const button = add(add(list, "li"), "button");
      button.type = "button";
      add(button, "span", names[j]);
      add(add(button, "i"), "i").style.width = `${Math.round(100 * Math.max(0, cosine))}%`;
      add(button, "small", cosine.toFixed(3));
      button.addEventListener("click", () => choose(j, { go: true }));
    }
  };

  // ---- searching
  const LISTED = 100;
  const search = () => {
    const words = $("words").value, list = $("found");
    list.replaceChildren();
    matches = [];
    if (words) {
      const id = /^#?(\d+)$/.exec(words.trim()), wanted = words.toLowerCase().replaceAll(" ", "␣");
      const ranked = [[], [], []];
      for (let i = 0; i < n; i++) {
        const at = words.trim().startsWith("#") ? -1 : folded[i].indexOf(wanted);
        const bare = folded[i].startsWith("␣") ? folded[i].slice(1) : folded[i];
        if (id && ids[i] === Number(id[1])) ranked[0].unshift(i);
        else if (at < 0) continue;
        else if (folded[i] === wanted || bare === wanted) ranked[0].push(i);
        else ranked[at === 0 || bare.startsWith(wanted) ? 1 : 2].push(i);
      }
      matches = ranked.flat();
      for (const i of matches.slice(0, LISTED)) {
        const button = add(add(list, "li"), "button");
        button.type = "button";
        add(button, "span", names[i]);
        add(button, "small", `#${ids[i]}`);
        button.addEventListener("click", () => choose(i, { go: true }));
      }
    }
    $("count").textContent = !words ? "" : !matches.length ? "No row shown here has this name or id."
      : matches.length > LISTED ? `${number(matches.length)} rows, all marked on the map; the first ${LISTED} are listed`
      : `${number(matches.length)} ${matches.length === 1 ? "row" : "rows"}, marked on the map`;
    draw();
  };
  $("words").addEventListener("input", search);
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    if (matches.length) choose(matches[0], { go: true });
  });
  const walk = (event) => {
    // Up and down through a list of buttons, from the search box into its list.
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const list = event.currentTarget === $("near") ? $("near") : $("found");
    const buttons = [...list.querySelectorAll("button")], at = buttons.indexOf(document.activeElement) + step;
    event.preventDefault();
    if (buttons[at]) buttons[at].focus();
    else if (at < 0 && list === $("found")) $("words").focus();
  };
  for (const id of ["words", "found", "near"]) $(id).addEventListener("keydown", walk);

  // ---- mouse, touch and keys
  const pointers = new Map();
  let moved = 0, pinch = 0;
  const local = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const tip = (i, x, y) => {
    hovered = i;
    const node = $("tip");
    node.hidden = i < 0;
    if (i >= 0) {
      node.replaceChildren();
      add(node, "b", names[i]);
      add(node, "span", `  #${ids[i]}, norm ${normOf(norms[i]).toPrecision(3)}`);
      const right = x + 16 + node.offsetWidth > width;
      node.style.transform = `translate(${Math.round(right ? x - node.offsetWidth - 12 : x + 14)}px,${Math.round(Math.min(y + 14, height - node.offsetHeight - 8))}px)`;
    }
    draw();
  };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture?.(event.pointerId); pointers.set(event.pointerId, local(event)); moved = 0; pinch = 0; });
  canvas.addEventListener("pointermove", (event) => {
    if (!places) return;
    const [x, y] = local(event), before = pointers.get(event.pointerId);
    if (!before) { const i = pointAt(x, y, 12); if (i !== hovered || i >= 0) tip(i, x, y); return; }
    pointers.set(event.pointerId, [x, y]);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()], apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (pinch) zoom(apart / pinch, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      pinch = apart;
      moved = 99;
      return;
    }
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    if (moved > 3) { if (hovered >= 0) tip(-1); move(x - before[0], y - before[1]); }
  });
  const up = (event) => {
    const held = pointers.delete(event.pointerId);
    if (held && moved <= 3 && places && event.type === "pointerup") { const [x, y] = local(event); choose(pointAt(x, y, 14)); }
    pinch = 0;
  };
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, up);
  canvas.addEventListener("pointerleave", () => { if (hovered >= 0) tip(-1); });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...local(event)); }, { passive: false });
  canvas.addEventListener("dblclick", (event) => zoom(2, ...local(event)));
  canvas.addEventListener("keydown", (event) => {
    const far = event.shiftKey ? 240 : 60;
    const keys = {
      ArrowLeft: () => move(far, 0), ArrowRight: () => move(-far, 0), ArrowUp: () => move(0, far), ArrowDown: () => move(0, -far),
      "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: whole,
      Enter: () => choose(pointAt(width / 2, height / 2, 1e6)),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== $("words")) { event.preventDefault(); $("words").focus(); }
    if (event.key === "Escape") { $("words").value = ""; search(); choose(-1); }
  });
  $("closer").addEventListener("click", () => zoom(1.6));
  $("farther").addEventListener("click", () => zoom(1 / 1.6));
  $("whole").addEventListener("click", whole);
  for (const input of document.querySelectorAll("[name=colour]"))
    input.addEventListener("change", () => { way = input.value; regroup(); draw(); });
  dark.addEventListener("change", () => { if (places) { regroup(); draw(); } });
  const fromHash = () => {
    const match = /^#id=(\d+)$/.exec(location.hash), i = match ? pointOf.get(Number(match[1])) : undefined;
    if (i !== undefined && i !== selected) choose(i, { go: true, hash: false });
  };

  const start = async () => {
    if (typeof DecompressionStream === "undefined") {
      $("wait").textContent = "This browser cannot unpack the map (it has no DecompressionStream).";
      return;
    }
    const parts = await unpack();
    ({ ids, norms, near, cosines } = parts);
    kindOf = parts.kinds;
    clusterOf = parts.clusters;
    names = JSON.parse(new TextDecoder().decode(parts.names));
    folded = names.map((name) => name.toLowerCase());
    pointOf = new Map(Array.from(ids, (id, i) => [id, i]));
    rank = new Uint32Array(n);
    Array.from({ length: n }, (_, i) => i).sort((a, b) => norms[a] - norms[b]).forEach((i, place) => { rank[i] = place; });
    places = parts.places;
    let across = 1, upward = 1;
    for (let i = 0; i < n; i++) { across = Math.max(across, Math.abs(places[i])); upward = Math.max(upward, Math.abs(places[n + i])); }
    reach = [across, upward];
    grid = makeGrid();
    shuffled = order();
    regroup();
    $("wait").hidden = true;
    new ResizeObserver(resize).observe(canvas);
    resize();
    whole();
    addEventListener("hashchange", fromHash);
    fromHash();
    document.documentElement.dataset.ready = "yes";
  };
  start();
})();
