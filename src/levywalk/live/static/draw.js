"use strict";
// Pictures of a network on a canvas: nodes, the walker, its trail and its jumps. Both pages use them.
const Draw = (() => {
  const BUCKETS = 6;  // colours on each side of "as many as it should"
  const TRAIL = 48;   // moves that are still seen
  const styles = () => getComputedStyle(document.documentElement);
  let palette = null;

  function rgb(text) {
    const hex = text.trim().replace("#", "");
    return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
  }
  const between = (a, b, t) => `rgb(${a.map((x, i) => Math.round(x + (b[i] - x) * t)).join(",")})`;
  function colours() {
    if (palette) return palette;
    const css = styles(), value = (name) => css.getPropertyValue(`--${name}`).trim();
    const few = rgb(value("few")), even = rgb(value("even")), many = rgb(value("many"));
    const scale = [];
    for (let i = -BUCKETS; i <= BUCKETS; i++) scale.push(between(even, i < 0 ? few : many, Math.abs(i) / BUCKETS));
    palette = { scale, paper: value("paper"), ink: value("ink"), soft: value("soft"), rule: value("rule"), line: value("line"), designs: [0, 1, 2, 3].map((i) => value(`c${i}`)) };
    return palette;
  }
  const forget = () => { palette = null; };

  // Visits against target. One is added to both, so that a first visit is no alarm.
  function bucket(visits, expected) {
    const t = Math.log2((visits + 1) / (expected + 1)) / 5;
    return Math.round(Math.max(-1, Math.min(1, t)) * BUCKETS) + BUCKETS;
  }

  function sized(canvas) {  // the canvas in device pixels; true if it changed
    const ratio = Math.min(window.devicePixelRatio || 1, 2), box = canvas.getBoundingClientRect();
    const width = Math.max(1, Math.round(box.width * ratio)), height = Math.max(1, Math.round(box.height * ratio));
    if (canvas.width === width && canvas.height === height) return false;
    canvas.width = width; canvas.height = height;
    return true;
  }

  class Picture {
    constructor(canvas, network, index) {
      this.canvas = canvas; this.network = network; this.index = index;
      this.below = document.createElement("canvas"); this.nodes = document.createElement("canvas");
      this.trail = []; this.at = null; this.selected = null; this.painted = 0; this.stale = true;
      const { smoothness } = network;
      if (smoothness) {
        const known = smoothness.filter((x) => x !== null), mean = known.reduce((a, b) => a + b, 0) / Math.max(known.length, 1);
        this.size = smoothness.map((x) => Math.min(4.5, Math.max(0.75, Math.sqrt((x ?? mean) / mean))));
      }
    }
    place(v) { return this.network.places ? this.network.places[v] : v; }  // of a dense picture, v is a place already
    x(p) { return this.left + p[0] * this.side; }
    y(p) { return this.top + p[1] * this.side; }
    radius(v) { return this.base * (this.size ? this.size[v] : 1); }

    fit() {
      if (!sized(this.canvas) && !this.stale) return;
      const { width, height } = this.canvas, least = Math.min(width, height), scale = least / 500;
      this.scale = scale; this.side = least - 44 * scale;
      this.left = (width - this.side) / 2; this.top = (height - this.side) / 2;
      const n = this.network.n;
      this.base = Math.max(1.1, Math.min(7, 190 / Math.sqrt(n) * 0.55)) * scale;
      if (/^ring/.test(this.network.name)) this.base = Math.max(1.1, Math.min(6, 560 / n)) * scale;
      for (const layer of [this.below, this.nodes]) { layer.width = width; layer.height = height; }
      const pen = this.below.getContext("2d");
      pen.clearRect(0, 0, width, height);
      if (this.network.lines) {
        pen.strokeStyle = colours().line;
        pen.lineWidth = Math.max(0.5, Math.min(1.2, 30 / Math.sqrt(this.network.lines.length))) * scale;
        pen.beginPath();
        for (const [u, v] of this.network.lines) {
          const a = this.place(u), b = this.place(v);
          pen.moveTo(this.x(a), this.y(a)); pen.lineTo(this.x(b), this.y(b));
        }
        pen.stroke();
      }
      this.stale = false; this.painted = 0;
    }

    paint(visits, target, step) {  // the layer of nodes
      const pen = this.nodes.getContext("2d"), { scale } = colours();
      pen.clearRect(0, 0, this.nodes.width, this.nodes.height);
      if (!this.network.places) { this.squares(pen, visits, target, step); return; }
      const groups = scale.map(() => []);
      for (let v = 0; v < visits.length; v++) groups[bucket(visits[v], step * target[v])].push(v);
      const all = 2 * Math.PI;
      groups.forEach((group, i) => {
        if (!group.length) return;
        pen.fillStyle = scale[i];
        pen.beginPath();
        for (const v of group) {
          const p = this.place(v), x = this.x(p), y = this.y(p), r = this.radius(v);
          if (r < 1.6) { pen.rect(x - r, y - r, 2 * r, 2 * r); continue; }
          pen.moveTo(x + r, y); pen.arc(x, y, r, 0, all);
        }
        pen.fill();
      });
    }
    squares(pen, visits, target, step) {  // of a large network
      const { side, nodes } = this.network, { scale } = colours(), most = Math.max(...nodes);
      const w = this.side / side;
      for (let i = 0; i < nodes.length; i++) {
        if (!nodes[i]) continue;
        pen.globalAlpha = 0.35 + 0.65 * Math.sqrt(nodes[i] / most);
        pen.fillStyle = scale[bucket(visits[i], step * target[i])];
        pen.fillRect(this.left + (i % side) * w, this.top + Math.floor(i / side) * w, w + 0.5, w + 0.5);
      }
      pen.globalAlpha = 1;
    }

    follow(path, far) {  // the nodes after some steps, and the hops of each
      let from = this.at;
      path.forEach((to, i) => {
        if (from !== null && !same(from, to)) this.trail.push({ from, to, far: far[i] || 1 });
        from = to;
      });
      this.at = from;
      if (this.trail.length > TRAIL) this.trail.splice(0, this.trail.length - TRAIL);
    }

    draw(visits, target, step, now) {
      this.fit();
      if (!this.painted || now - this.painted > 160) { this.paint(visits, target, step); this.painted = now; }
      const pen = this.canvas.getContext("2d"), { width, height } = this.canvas, look = colours(), own = look.designs[this.index];
      pen.clearRect(0, 0, width, height);
      pen.drawImage(this.below, 0, 0);
      pen.drawImage(this.nodes, 0, 0);
      pen.strokeStyle = own; pen.lineCap = "round";
      this.trail.forEach((move, i) => {
        const a = this.place(move.from), b = this.place(move.to);
        const x = this.x(a), y = this.y(a), u = this.x(b), w = this.y(b);
        pen.globalAlpha = 0.12 + 0.78 * ((i + 1) / this.trail.length) ** 2;
        pen.lineWidth = (move.far > 1 ? 2.4 : 2) * this.scale;
        pen.beginPath(); pen.moveTo(x, y);
        if (move.far > 1) {
          const away = Math.hypot(u - x, w - y), lift = Math.min(0.9, 0.35 + 14 * this.scale / Math.max(away, 1));
          pen.quadraticCurveTo((x + u) / 2 + (w - y) * lift, (y + w) / 2 - (u - x) * lift, u, w);
        } else pen.lineTo(u, w);
        pen.stroke();
      });
      pen.globalAlpha = 1;
      if (this.at !== null) this.ring(pen, this.at, own, look.paper);
      if (this.selected !== null && this.network.places) {
        const p = this.place(this.selected);
        pen.strokeStyle = look.ink; pen.lineWidth = 1.6 * this.scale; pen.setLineDash([4 * this.scale, 3 * this.scale]);
        pen.beginPath(); pen.arc(this.x(p), this.y(p), this.radius(this.selected) + 7 * this.scale, 0, 2 * Math.PI); pen.stroke();
        pen.setLineDash([]);
      }
    }
    ring(pen, v, colour, paper) {  // the walker
      const p = this.place(v), x = this.x(p), y = this.y(p);
      const r = Math.max(6 * this.scale, (this.network.places ? this.radius(v) : 0) + 3 * this.scale);
      pen.fillStyle = colour; pen.strokeStyle = paper; pen.lineWidth = 2 * this.scale;
      pen.beginPath(); pen.arc(x, y, 5.5 * this.scale, 0, 2 * Math.PI); pen.fill(); pen.stroke();
      pen.strokeStyle = colour; pen.lineWidth = 2.4 * this.scale;
      pen.beginPath(); pen.arc(x, y, r + 2 * this.scale, 0, 2 * Math.PI); pen.stroke();
    }
    nearest(clientX, clientY) {
      if (!this.network.places) return null;
      const box = this.canvas.getBoundingClientRect(), k = this.canvas.width / box.width;
      const x = (clientX - box.left) * k, y = (clientY - box.top) * k;
      let best = null, least = (24 * this.scale) ** 2;
      this.network.places.forEach((p, v) => {
        const d = (this.x(p) - x) ** 2 + (this.y(p) - y) ** 2 - this.radius(v) ** 2;
        if (d < least) { least = d; best = v; }
      });
      return best;
    }
  }
  // An element. Every text goes through textContent: nothing in it can become markup.
  function make(name, parent, attributes, text) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }
  const same = (a, b) => (Array.isArray(a) ? a[0] === b[0] && a[1] === b[1] : a === b);
  return { Picture, colours, forget, make, sized };
})();
