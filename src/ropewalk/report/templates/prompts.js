"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const fields = new Map();
  for (const link of document.querySelectorAll("a[data-at]")) fields.set(`${link.dataset.map}:${link.dataset.at}`, link);

  const unpack = async (text) => {
    if (!text) return new Uint8Array();
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  // Unpacked when first asked for, once.
  let unpacked;
  const load = () => unpacked ??= Promise.all([unpack(data.rows), unpack(data.pool)]).then(
    ([rows, pool]) => [rows.length ? JSON.parse(new TextDecoder().decode(rows)) : [], pool]);

  const add = (parent, name, text, className) => {
    const node = document.createElement(name);
    node.textContent = text;
    if (className) node.className = className;
    parent.append(node);
    return node;
  };

  // Only text nodes are ever made of what models and files said.
  const hidden = "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]|[\\u{e0000}-\\u{e007f}]";
  const literal = (text) => text.replace(/[\\^$.*+?()[\]{}|\/]/g, "\\$&");
  const write = (parent, text, marked) => {
    const words = marked.filter(Boolean).map(literal);
    const pattern = new RegExp([hidden, ...words].join("|"), "gu");
    let done = 0;
    for (const found of text.matchAll(pattern)) {
      parent.append(text.slice(done, found.index));
      if (words.length && marked.includes(found[0])) write(add(parent, "mark", ""), found[0], []);
      else add(parent, "span", "U+" + found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0"), "ctl");
      done = found.index + found[0].length;
    }
    parent.append(text.slice(done));
  };

  const number = (n) => n.toLocaleString("en-US");
  const percent = (d) => `${Math.round(1000 * d) / 10} %`;
  const link = (row) => `#cell=${row.length},${row.depth},${row.trial}` +
    (row.control === "none" && row.task === "single" ? "" : `,${row.control}`) + (row.task === "single" ? "" : `,${row.task}`);

  const place = () => {
    const match = /^#cell=(.+)$/.exec(location.hash);
    if (!match) return null;
    const [length, depth, trial, control, task] = decodeURIComponent(match[1]).split(",");
    return { length: Number(length), depth: depth ? Number(depth) : null,
             trial: trial ? Number(trial) : null, control: control || "none", task: task || "single" };
  };

  const say = (text) => { $("reader-hint").textContent = text; };

  const show = async () => {
    const at = place();
    if (!at) return;
    for (const field of fields.values()) {
      const own = field.getAttribute("href").slice(6).split(",");
      if (at.control === "none" && Number(own[0]) === at.length && Number(own[1]) === at.depth &&
          (own[4] || "single") === at.task) field.setAttribute("aria-current", "true");
      else field.removeAttribute("aria-current");
    }
    $("reader").hidden = true;
    if (typeof DecompressionStream === "undefined") {
      say("This browser cannot unpack the prompts (it has no DecompressionStream); the command line prints them.");
      return;
    }
    const [rows, pool] = await load();
    const own = rows.filter((row) => row.length === at.length && row.control === at.control && row.task === at.task &&
      (at.depth === null || row.depth === at.depth)).sort((a, b) => a.depth - b.depth || a.trial - b.trial);
    const row = at.trial === null ? own[0] : own.find((each) => each.trial === at.trial);
    const name = (at.control === "none" ? "" : `, ${at.control}`) + (at.task === "single" ? "" : `, task ${at.task}`);
    const where = `${number(at.length)} tokens` + (at.depth === null ? "" : `, depth ${percent(at.depth)}`) + name;
    if (!row) {
      say(`No answer of this field (${where}) is kept in this report.`);
      return;
    }
    say(where);
    fill(row, own, pool);
    $("reader").hidden = false;
  };

  const fill = (row, own, pool) => {
    $("trials").replaceChildren();
    for (const other of own) {
      const choice = add($("trials"), "a", `trial ${other.trial}: ${other.outcome}`);
      choice.href = link(other);
      if (other === row) choice.setAttribute("aria-current", "true");
    }
    $("answer").replaceChildren();
    const facts = [["outcome", row.outcome], ["expected", row.value], ["printed", row.printed], ["key", row.key],
      ["log-probability", row.log_probability === null ? "none" : String(row.log_probability)],
      ["really", `${number(row.actual_length)} tokens, needle at ${percent(row.actual_depth)}`],
      ["seconds", String(row.seconds)], ["prompt hash", row.prompt_hash]];
    for (const [name, text] of facts) {
      add($("answer"), "dt", name);
      write(add($("answer"), "dd", ""), text, []);
    }
    $("kind").textContent = ["The prompt itself is not in this report; the command below prints it.",
      "Head, needle and tail of the prompt; the command below prints all of it.",
      "The whole prompt, up to where the model goes on:"][row.kind];
    const prompt = $("prompt");
    prompt.replaceChildren();
    prompt.hidden = row.kind === 0;
    const decoder = new TextDecoder();
    let text = "";
    for (const [start, size] of row.runs) {
      if (start >= 0) { text += decoder.decode(pool.subarray(start, start + size)); continue; }
      write(prompt, text, [row.key, row.value]);
      add(prompt, "span", `${number(size)} characters left out`, "gap");
      text = "";
    }
    write(prompt, text, [row.key, row.value]);
    $("jumps").hidden = row.kind === 0;
    write($("show"), ($("show").textContent = "", row.show), []);
  };

  const jump = (to) => {
    const prompt = $("prompt"), needle = prompt.querySelector("mark");
    prompt.scrollTop = to === "start" ? 0 : to === "end" ? prompt.scrollHeight :
      needle ? needle.offsetTop - prompt.clientHeight / 3 : 0;
  };
  $("jumps").addEventListener("click", (event) => { if (event.target.dataset.to) jump(event.target.dataset.to); });

  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    const field = step && event.target.closest?.("a[data-at]");
    if (!field) return;
    const [row, column] = field.dataset.at.split(",").map(Number);
    const next = fields.get(`${field.dataset.map}:${row + step[0]},${column + step[1]}`);
    if (next) { event.preventDefault(); next.focus(); }
  });
  // A click moves to the prompt where it is out of sight; a link opened from elsewhere does too.
  const reveal = () => show().then(() => {
    if ($("reader").hidden) return;
    jump("needle");
    $("reader-title").scrollIntoView({ block: "nearest" });
  });
  addEventListener("hashchange", reveal);
  reveal();
})();
