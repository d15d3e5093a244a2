"use strict";
// The curves: error against transfers, as they grow.
const Chart = (() => {
  const MOST = 3000;  // points of a curve; with more, every second one is dropped
  const DASHES = [[], [9, 4], [3, 3], [11, 3, 2, 3]];
  const short = (v) => (v >= 1e6 ? `${+(v / 1e6).toPrecision(3)}M` : v >= 1e3 ? `${+(v / 1e3).toPrecision(3)}k` : String(+v.toPrecision(3)));
  function percent(v) {
    const p = 100 * v;
    return p !== 0 && p < 0.01 ? `${p.toExponential(0)} %` : `${+p.toPrecision(2)} %`;
  }
  function nice(range, wanted) {
    const raw = range / wanted, ten = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].find((k) => k * ten >= raw) * ten;
  }

  class Curves {
    constructor(canvas, names, words) {
      this.canvas = canvas; this.names = names; this.lines = names.map(() => []);
      this.words = words || { across: "transfers (messages between nodes)", of: "the first error" };
    }
    add(i, points) {  // [step, transfers, error], of which the first is that before the first step
      const line = this.lines[i];
      for (const [, sent, error] of points) if (error !== null) line.push([sent, error]);
      if (line.length > MOST) this.lines[i] = line.filter((_, k) => k % 2 === 0 || k === line.length - 1);
    }
    draw() {
      Draw.sized(this.canvas);
      const { width, height } = this.canvas, look = Draw.colours(), pen = this.canvas.getContext("2d");
      const k = width / this.canvas.getBoundingClientRect().width;
      pen.clearRect(0, 0, width, height);
      pen.font = `${12 * k}px system-ui, sans-serif`;
      const shares = this.lines.map((line) => line.map(([sent, error]) => [sent, error / (line[0][1] || 1)]));
      const all = shares.flat().filter(([, share]) => share > 0);
      const right = Math.max(10, ...shares.map((line) => (line.length ? line[line.length - 1][0] : 0)));
      let low = all.reduce((least, [, share]) => Math.min(least, share), 1), high = all.reduce((most, [, share]) => Math.max(most, share), 1);
      low = 10 ** Math.floor(Math.log10(Math.min(low, 0.5))); high = Math.min(high * 1.15, 1e6);
      const left = 58 * k, top = 10 * k, bottom = height - 40 * k, end = width - 14 * k;
      const first = Math.min(...shares.map((line) => (line.length ? line[0][0] : Infinity)), right - 10);
      const x = (v) => left + ((v - first) / (right - first)) * (end - left);
      const y = (v) => bottom - (Math.log10(Math.max(v, low) / low) / Math.log10(high / low)) * (bottom - top);
      pen.strokeStyle = look.rule; pen.fillStyle = look.soft; pen.lineWidth = k;
      pen.textAlign = "right"; pen.textBaseline = "middle";
      const decades = Math.ceil(Math.log10(high / low)), every = Math.max(1, Math.ceil(decades / 6));
      for (let e = Math.round(Math.log10(low)); 10 ** e <= high; e += every) {
        const at = y(10 ** e);
        pen.beginPath(); pen.moveTo(left, at); pen.lineTo(end, at); pen.stroke();
        pen.fillText(percent(10 ** e), left - 6 * k, at);
      }
      pen.textAlign = "center"; pen.textBaseline = "top";
      const tick = nice(right - first, 6);
      for (let v = Math.ceil(first / tick) * tick; v <= right; v += tick) pen.fillText(short(v), x(v), bottom + 6 * k);
      pen.fillText(this.words.across, (left + end) / 2, bottom + 22 * k);
      pen.lineWidth = 2 * k; pen.lineJoin = "round";
      shares.forEach((line, i) => {
        pen.strokeStyle = look.designs[i]; pen.setLineDash(DASHES[i].map((d) => d * k));
        pen.beginPath();
        line.forEach(([sent, share], j) => (j ? pen.lineTo(x(sent), y(share)) : pen.moveTo(x(sent), y(share))));
        pen.stroke(); pen.setLineDash([]);
        if (line.length) {
          const [sent, share] = line[line.length - 1];
          pen.fillStyle = look.designs[i];
          pen.beginPath(); pen.arc(x(sent), y(share), 3.5 * k, 0, 2 * Math.PI); pen.fill();
        }
      });
    }
    inWords() {
      return this.lines.map((line, i) => {
        if (!line.length) return `${this.names[i]}: nothing yet`;
        const [sent, error] = line[line.length - 1];
        return `${this.names[i]}: ${percent(error / (line[0][1] || 1))} of ${this.words.of} after ${sent.toLocaleString("en")} ${this.words.across.split(" ")[0]}`;
      }).join("; ");
    }
    share(i) {  // the present error as a share of the first one
      const line = this.lines[i];
      return line.length ? line[line.length - 1][1] / (line[0][1] || 1) : null;
    }
  }
  return { Curves, percent, short };
})();
