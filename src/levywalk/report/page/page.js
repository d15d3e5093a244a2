"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);

  // Every text from a file goes through textContent: nothing in it can become markup.
  function make(name, attributes, parent, text) {
    const node = name in { table: 1, tr: 1, td: 1, th: 1, button: 1, span: 1, div: 1, tbody: 1 }
      ? document.createElement(name) : document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }

  // --- how a design looks: colour, dash and mark, so that grey is enough ---------------------------------------------
  const DASHES = ["", "8 3", "2 2.5", "10 3 2 3", "5 5", "12 3 2 3 2 3", "1 4", "16 4"];
  const MARKS = [
    "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0", "M0,-4.5L4.2,3.2L-4.2,3.2Z", "M-3.3,-3.3H3.3V3.3H-3.3Z",
    "M0,-4.6L4.6,0L0,4.6L-4.6,0Z", "M0,4.5L4.2,-3.2L-4.2,-3.2Z", "M-1.3,-4.2H1.3V-1.3H4.2V1.3H1.3V4.2H-1.3V1.3H-4.2V-1.3H-1.3Z",
    "M-4,0L0,-2L4,0L0,2Z", "M0,-4L2,0L0,4L-2,0Z",
  ];
  const look = (i) => i % 8;
  function mark(parent, i, x, y) {
    return make("path", { d: MARKS[look(i)], transform: `translate(${x},${y})`, class: `f${look(i)}` }, parent);
  }
  function swatch(i, parent) {
    const box = make("svg", { class: "swatch", viewBox: "0 0 34 12", "aria-hidden": "true" }, parent);
    make("line", { x1: 0, y1: 6, x2: 34, y2: 6, class: `line s${look(i)}`, "stroke-dasharray": DASHES[look(i)] }, box);
    mark(box, i, 17, 6);
    return box;
  }
  for (const place of document.querySelectorAll("[data-swatch]")) place.prepend(swatch(Number(place.dataset.swatch)), " ");

  // --- numbers in words ----------------------------------------------------------------------------------------------
  const count = (v) => (v === null ? "∞" : Math.round(v).toLocaleString("en"));
  function percent(v) {
    if (v === null) return "∞";
    const p = 100 * v;
    if (p !== 0 && (p < 1e-4 || p >= 1e6)) return p.toExponential(2).replace(/\.?0+e/, "e") + " %";
    return (p >= 1000 ? Math.round(p).toLocaleString("en") : String(Number(p.toPrecision(3)))) + " %";
  }
  const plain = (v) => (v === null ? "∞" : String(Number(v.toPrecision(4))));
  const shown = data.relative ? percent : plain;  // what the curves show: a share of the first value, or a number
  const short = (v) => (v >= 1e6 ? `${+(v / 1e6).toPrecision(3)}M` : v >= 1e3 ? `${+(v / 1e3).toPrecision(3)}k` : String(+v.toPrecision(3)));
  const AXES = { steps: "steps (updates)", hops: "hops", transfers: "transfers (messages between nodes)", time: "time (s)" };

  // --- the curves ----------------------------------------------------------------------------------------------------
  function curves(all) {
    const plot = $("plot"), tip = $("tip"), live = $("live"), legend = $("legend");
    const state = { axis: "steps", logX: $("logX").checked, logY: $("logY").checked, median: false, whole: false, hidden: new Set(), at: null };
    let drawn = null;

    all.forEach((curve, i) => {
      const button = make("button", { type: "button", "aria-pressed": "true" }, legend);
      swatch(i, button);
      make("span", {}, button, curve.name);
      button.addEventListener("click", () => {
        const shown = state.hidden.has(i);
        if (shown) state.hidden.delete(i); else state.hidden.add(i);
        button.setAttribute("aria-pressed", String(shown));
        draw();
      });
    });
    for (const radio of document.querySelectorAll("input[name=axis]"))
      radio.addEventListener("change", () => { state.axis = radio.value; state.at = null; draw(); });
    for (const key of ["logX", "logY", "median", "whole"])
      if ($(key)) $(key).addEventListener("change", (event) => { state[key] = event.target.checked; draw(); });

    function scale(low, high, from, to, log) {
      const f = log ? Math.log10 : (v) => v;
      const a = f(low), b = f(high) - a || 1;
      return { low, high, log, of: (v) => from + ((f(v) - a) / b) * (to - from), back: (p) => { const v = a + ((p - from) / (to - from)) * b; return log ? 10 ** v : v; } };
    }
    function ticks(s, wanted) {
      const out = [];
      if (s.log) {
        const decades = Math.log10(s.high / s.low);
        const every = Math.max(1, Math.ceil(decades / wanted));
        const within = decades < 2.2 ? [1, 2, 5] : [1];
        for (let k = Math.floor(Math.log10(s.low)); k <= Math.log10(s.high); k += every)
          for (const m of within) { const v = m * 10 ** k; if (v >= s.low * 0.999 && v <= s.high * 1.001) out.push(v); }
        return out;
      }
      const raw = (s.high - s.low) / wanted, base = 10 ** Math.floor(Math.log10(raw));
      const step = base * [1, 2, 5, 10].find((m) => m * base >= raw * 0.999);
      for (let v = Math.ceil(s.low / step) * step; v <= s.high * 1.0001; v += step) out.push(v);
      return out;
    }
    function draw() {
      const width = Math.max(300, Math.round(plot.clientWidth || 800));
      const height = Math.round(Math.min(460, Math.max(280, width * 0.52)));
      const room = { left: 58, right: 20, top: 12, bottom: 46 };
      const visible = all.map((curve, i) => ({ curve, i })).filter(({ i }) => !state.hidden.has(i));
      const basis = visible.length ? visible : all.map((curve, i) => ({ curve, i }));
      const good = (v) => v !== null && (!state.logY || v > 0);
      let xs = [], ys = data.accuracy === null ? [] : [data.accuracy];
      for (const { curve } of basis) {
        xs.push(...curve[state.axis].filter((v) => v !== null && (!state.logX || v > 0)));
        ys.push(...curve.mean.filter(good));
        if (state.median) ys.push(...curve.median.filter(good));
      }
      const starts = data.relative ? [1] : basis.map(({ curve }) => Math.abs(curve.mean[0] || 1));
      const most = Math.min(Math.max(...ys), 1000 * Math.max(...starts, data.accuracy || 0)), least = Math.min(...ys);
      const first = state.logX ? Math.min(...xs, 1e300) : 0;
      const last = Math.min(Math.max(...xs, 1), state.whole ? Infinity : data.until[state.axis]);  // where all have settled
      const x = scale(Math.min(first, last / 1.01), last, room.left, width - room.right, state.logX);
      const y = scale(state.logY ? least / 1.3 : Math.min(0, least), most * (state.logY ? 1.15 : 1.03), height - room.bottom, room.top, state.logY);
      const old = plot.querySelector("svg");
      const root = make("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
      const clip = make("clipPath", { id: "inside" }, make("defs", {}, root));
      make("rect", { x: room.left, y: room.top - 6, width: width - room.left - room.right + 6, height: height - room.top - room.bottom + 6 }, clip);
      for (const v of ticks(y, 6)) {
        make("line", { x1: room.left, x2: width - room.right, y1: y.of(v), y2: y.of(v), class: "grid" }, root);
        make("text", { x: room.left - 6, y: y.of(v) + 4, "text-anchor": "end" }, root, shown(v));
      }
      for (const v of ticks(x, width < 500 ? 4 : 8)) {
        make("line", { x1: x.of(v), x2: x.of(v), y1: height - room.bottom, y2: height - room.bottom + 5, class: "grid" }, root);
        make("text", { x: x.of(v), y: height - room.bottom + 18, "text-anchor": "middle" }, root, short(v));
      }
      make("line", { x1: room.left, x2: width - room.right, y1: height - room.bottom, y2: height - room.bottom, class: "grid" }, root);
      make("text", { x: (room.left + width - room.right) / 2, y: height - 8, "text-anchor": "middle", id: "axis-name" }, root, AXES[state.axis]);
      const body = make("g", { "clip-path": "url(#inside)" }, root);
      const place = (v) => (state.logY && v <= 0 ? height : Math.max(-50, Math.min(height + 50, y.of(v))));
      function path(curve, values) {
        let d = "", pen = false;
        values.forEach((v, k) => {
          const at = curve[state.axis][k], ok = v !== null && at !== null && (!state.logX || at > 0);
          if (ok) d += `${pen ? "L" : "M"}${x.of(at).toFixed(1)},${place(v).toFixed(1)}`;
          pen = ok;
        });
        return d;
      }
      for (const { curve, i } of visible) {
        const ok = curve.low.map((v, k) => v !== null && curve.mean[k] !== null && (!state.logX || curve[state.axis][k] > 0));
        const keep = ok.map((v, k) => k).filter((k) => ok[k]);
        if (keep.length > 1 && data.walks > 1) {
          const up = keep.map((k) => `${x.of(curve[state.axis][k]).toFixed(1)},${place(curve.high[k] === null ? 1e300 : curve.high[k]).toFixed(1)}`);
          const down = keep.reverse().map((k) => `${x.of(curve[state.axis][k]).toFixed(1)},${place(curve.low[k]).toFixed(1)}`);
          make("polygon", { points: up.concat(down).join(" "), class: `band f${look(i)}` }, body);
        }
      }
      if (data.accuracy !== null) {
        make("line", { x1: room.left, x2: width - room.right, y1: y.of(data.accuracy), y2: y.of(data.accuracy), class: "goal" }, body);
      }
      for (const { curve, i } of visible) {
        const group = make("g", { class: "curve", "data-curve": i }, body);
        make("path", { d: path(curve, curve.mean), class: `line s${look(i)}`, "stroke-dasharray": DASHES[look(i)] }, group);
        if (state.median) make("path", { d: path(curve, curve.median), class: `median s${look(i)}` }, group);
        const gap = (width - room.left) / 8;
        let next = room.left + gap * (0.35 + (0.5 * i) / all.length);
        curve.mean.forEach((v, k) => {
          const at = curve[state.axis][k];
          if (v === null || (state.logX && at <= 0) || x.of(at) < next) return;
          mark(group, i, x.of(at).toFixed(1), place(v).toFixed(1));
          next = x.of(at) + gap;
        });
        if (curve.reached !== null) {
          const at = curve[state.axis][curve.reached];
          if (!state.logX || at > 0)
            make("circle", { cx: x.of(at), cy: place(curve.mean[curve.reached]), r: 6, class: `ring s${look(i)}` }, group);
        }
      }
      // At the left, where walks that have just begun are far from it, and above the curves.
      if (data.accuracy !== null)
        make("text", { x: room.left + 4, y: y.of(data.accuracy) - 5 }, body, `the accuracy, ${shown(data.accuracy)}`);
      if (!visible.length) make("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, root, "no design is shown; choose one above");
      const cross = make("g", {}, root);
      if (old) old.replaceWith(root); else plot.prepend(root);
      drawn = { x, y, place, width, height, room, visible, cross };
      if (state.at === null) tip.hidden = true; else point(state.at, false);
    }
    function nearest(values, v) {
      let best = 0;
      values.forEach((u, k) => { if (u !== null && Math.abs(u - v) < Math.abs(values[best] - v)) best = k; });
      return best;
    }
    function point(v, speak) {
      const { x, place, width, height, room, visible, cross } = drawn;
      if (!visible.length) return;
      state.at = v;
      cross.replaceChildren();
      make("line", { x1: x.of(v), x2: x.of(v), y1: room.top, y2: height - room.bottom, class: "cross" }, cross);
      tip.replaceChildren();
      make("div", {}, tip, `${count(v)} ${state.axis}`);
      const table = make("tbody", {}, make("table", {}, tip));
      const said = [];
      for (const { curve, i } of visible) {
        const k = nearest(curve[state.axis], v);
        const row = make("tr", { "data-curve": i }, table);
        const head = make("th", {}, row);
        head.append(swatch(i), " " + curve.name);
        const band = data.walks > 1 ? `[${shown(curve.low[k])}, ${shown(curve.high[k])}]` : "";
        make("td", {}, row, shown(curve.mean[k]));
        make("td", {}, row, band);
        if (state.median) make("td", {}, row, `median ${shown(curve.median[k])}`);
        said.push(`${curve.name} ${shown(curve.mean[k])}`);
        if (curve.mean[k] !== null)
          make("circle", { cx: x.of(curve[state.axis][k]), cy: place(curve.mean[k]), r: 4, class: `f${look(i)}` }, cross);
      }
      tip.hidden = false;
      const ratio = plot.clientWidth / width, left = x.of(v) * ratio;
      tip.style.left = `${Math.max(0, left + tip.offsetWidth + 16 > plot.clientWidth ? left - tip.offsetWidth - 12 : left + 12)}px`;
      tip.style.top = `${room.top + 4}px`;
      if (speak) live.textContent = `${count(v)} ${state.axis}: ${said.join(", ")}`;
    }
    function leave() { state.at = null; tip.hidden = true; if (drawn) drawn.cross.replaceChildren(); }
    function follow(event) {
      const { x, width, room } = drawn, box = plot.getBoundingClientRect();
      const at = ((event.clientX - box.left) * width) / box.width;
      if (at < room.left - 4 || at > width - room.right + 8) return leave();
      point(Math.min(Math.max(x.back(at), x.low), x.high), false);
    }
    plot.addEventListener("pointermove", follow);
    plot.addEventListener("pointerdown", follow);
    plot.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") leave(); });
    plot.addEventListener("keydown", (event) => {
      if (!drawn.visible.length) return;
      const values = drawn.visible[0].curve[state.axis];
      const now = state.at === null ? -1 : nearest(values, state.at);
      const jump = event.shiftKey ? 10 : 1;
      const next = { ArrowRight: now + jump, ArrowLeft: now < 0 ? values.length - 1 : now - jump, Home: 0, End: values.length - 1 }[event.key];
      if (event.key === "Escape") leave();
      if (next === undefined) return;
      event.preventDefault();
      if (event.key === "End" && $("whole") && !state.whole) { $("whole").checked = state.whole = true; draw(); }
      const lowest = state.logX ? values.findIndex((v) => v > 0) : 0;
      const highest = values.filter((v) => v <= drawn.x.high * 1.0001).length - 1;
      point(values[Math.max(lowest, Math.min(highest, next))], true);
    });
    plot.addEventListener("blur", leave);
    let width = 0;
    new ResizeObserver(() => { if (plot.clientWidth !== width) { width = plot.clientWidth; draw(); } }).observe(plot);
    draw();
  }

  // --- tables: sorting and copying -----------------------------------------------------------------------------------
  function worth(cell) {
    const text = cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent.trim();
    if (text === "inf") return Infinity;
    return text === "" || Number.isNaN(Number(text)) ? text : Number(text);
  }
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a < b ? -1 : 1;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, "en", { numeric: true });
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells], rows = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = make("button", { type: "button" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sorted = [...rows.rows].sort((a, b) => compare(worth(a.cells[column]), worth(b.cells[column])) * (down ? -1 : 1));
        rows.append(...sorted);
      });
    });
  }
  async function copy(text, said) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      if (!done) { said.textContent = "could not copy: select the text below"; said.after(area); return; }
      area.remove();
    }
    said.textContent = "copied";
    setTimeout(() => { said.textContent = ""; }, 2000);
  }
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", () => {
      const said = $(button.dataset.said);
      if (button.dataset.text) return copy($(button.dataset.text).textContent, said);
      const parts = data.copies[button.dataset.copy];
      const order = [...$(button.dataset.table).tBodies[0].rows].map((row) => Number(row.dataset.index));
      return copy(parts.head + order.map((k) => parts.rows[k]).join("") + parts.foot, said);
    });
  }
  if (data.curves.length) curves(data.curves);
})();
