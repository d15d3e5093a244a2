"use strict";
// The page of a fleet: where the model is, who guards it, who is alive. It only watches.
const FleetView = (() => {
  const $ = (id) => document.getElementById(id);
  const LINES = 200;
  let network = null, now = null, curves = null, dirty = false;

  const { make } = Draw;
  const whole = (v) => Math.round(v).toLocaleString("en");
  const number = (v) => (v === null ? "–" : String(+v.toPrecision(4)));
  function called(v) {
    const row = now.nodes.find((one) => one.id === v);
    return row && row.name ? `${v} (${row.name})` : String(v);
  }

  function begin(hello) {
    network = hello.network;
    $("title").textContent = hello.title; document.title = hello.title;
    $("log").replaceChildren();
    curves = new Chart.Curves($("chart"), ["loss"], { across: "updates", of: "the first loss" });
    frame(hello.frame);
  }
  function frame(news) {
    now = news;
    curves.add(0, news.curve);
    $("curves").hidden = !curves.lines[0].length;
    for (const entry of news.log) {
      const item = make("li", null, { class: entry.level === "error" || entry.level === "warning" ? "bad" : "" });
      make("time", item, {}, entry.time.slice(11, 19));
      make("b", item, {}, `node ${entry.node}: `);
      make("span", item, {}, entry.text);
      $("log").prepend(item);
    }
    while ($("log").children.length > LINES) $("log").lastChild.remove();
    say();
    if (!dirty) { dirty = true; requestAnimationFrame(draw); }
  }
  function sentenceOf() {
    const lost = now.nodes.filter((one) => one.unreached !== null), down = now.nodes.filter((one) => !one.up && one.unreached === null), silent = now.nodes.filter((one) => one.up && !one.answers);
    const list = (rows) => rows.slice(0, 5).map((one) => called(one.id)).join(", ") + (rows.length > 5 ? ", …" : "");
    const parts = [];
    const fenced = now.nodes.filter((one) => one.fenced);
    if (now.stopped !== null) parts.push("The walk has stopped.");
    if (now.diverged_at !== null) parts.push("The model has diverged.");
    if (now.holder === null) parts.push(now.stopped === null ? "The walk has not started." : "The model is lost: no node can continue.");
    else if (now.finished) parts.push(`The walk is over; it ended at node ${called(now.holder)}.`);
    else parts.push(`The model is at node ${called(now.holder)}${now.guardian === null ? "" : `; node ${called(now.guardian)} guards a copy`}.`);
    if (down.length) parts.push(`${down.length === 1 ? "Node" : "Nodes"} ${list(down)} ${down.length === 1 ? "does" : "do"} not run.`);
    else if (!lost.length) parts.push(`All ${now.nodes.length} nodes run.`);
    if (lost.length) parts.push(`${lost.length === 1 ? "Node" : "Nodes"} ${list(lost)} could not be reached.`);
    if (silent.length) parts.push(`${silent.length === 1 ? "Node" : "Nodes"} ${list(silent)} ${silent.length === 1 ? "does" : "do"} not answer.`);
    if (fenced.length) parts.push(`${fenced.length === 1 ? "Node" : "Nodes"} ${list(fenced)} ${fenced.length === 1 ? "is" : "are"} fenced.`);
    return parts.join(" ");
  }
  function say() {
    const text = sentenceOf();
    if ($("sentence").textContent !== text) $("sentence").textContent = text;
    const wrong = now.stopped !== null || now.diverged_at !== null || now.nodes.some((one) => one.fenced);
    $("state").classList.toggle("trapped", wrong || ((now.nodes_down > 0 || now.nodes_unreached.length > 0) && !now.finished));
    $("picture").setAttribute("aria-label", `The fleet on ${network.name}. ${text}`);
    $("waits").replaceChildren();
    for (const wait of now.waits) make("li", $("waits"), {}, wait);
    const rows = [
      ["updates", `${whole(now.step)} of ${whole(now.steps)}`], ["transfers", whole(now.transfers)], ["epoch", whole(now.epoch)],
      ["lost", now.lost_updates], ["hand-offs a second", now.rate === null ? "–" : String(+now.rate.toPrecision(3))],
      ["loss", now.loss_is_infinite ? "infinite" : number(now.loss)], ...Object.entries(now.metrics).map(([name, value]) => [name, value === null ? "not finite" : number(value)]), ["nodes", `${now.nodes_up} run, ${now.nodes_down} do not${now.nodes_unreached.length ? `, ${now.nodes_unreached.length} not reached` : ""}`],
    ];
    $("numbers").replaceChildren();
    for (const [name, value] of rows) { make("dt", $("numbers"), {}, name); make("dd", $("numbers"), {}, value); }
  }

  function draw() {
    dirty = false;
    const canvas = $("picture"), look = Draw.colours();
    Draw.sized(canvas);
    const { width, height } = canvas, least = Math.min(width, height), k = least / 500, pen = canvas.getContext("2d"), side = least - 68 * k;
    const x = (v) => (width - side) / 2 + network.places[v][0] * side, y = (v) => (height - side) / 2 + network.places[v][1] * side;
    const r = Math.max(4, Math.min(17, 90 / Math.sqrt(network.n))) * k, css = getComputedStyle(document.documentElement);
    const alarm = css.getPropertyValue("--alarm").trim();
    pen.clearRect(0, 0, width, height);
    pen.strokeStyle = look.line; pen.lineWidth = 1.3 * k;
    pen.beginPath();
    for (const [u, v] of network.lines) { pen.moveTo(x(u), y(u)); pen.lineTo(x(v), y(v)); }
    pen.stroke();
    pen.strokeStyle = look.designs[1]; pen.lineCap = "round";
    const way = [...now.recent], near = new Set(network.lines.flatMap(([u, v]) => [`${u} ${v}`, `${v} ${u}`]));
    way.forEach((v, i) => {
      if (!i || !near.has(`${way[i - 1]} ${v}`)) return;
      pen.globalAlpha = 0.12 + 0.6 * (i / way.length); pen.lineWidth = 4 * k;
      pen.beginPath(); pen.moveTo(x(way[i - 1]), y(way[i - 1])); pen.lineTo(x(v), y(v)); pen.stroke();
    });
    pen.globalAlpha = 1;
    pen.textAlign = "center"; pen.textBaseline = "middle"; pen.font = `600 ${Math.max(9 * k, r * 0.85)}px system-ui, sans-serif`;
    for (const one of now.nodes) {
      const v = one.id, a = x(v), b = y(v), holds = v === now.holder, guards = v === now.guardian;
      pen.beginPath(); pen.arc(a, b, r, 0, 2 * Math.PI);
      pen.fillStyle = !one.up || one.fenced ? look.paper : holds ? look.designs[1] : look.designs[2];
      pen.globalAlpha = one.up && !one.answers ? 0.4 : 1;
      pen.fill(); pen.globalAlpha = 1;
      if (!one.up || one.fenced) {
        pen.strokeStyle = alarm; pen.lineWidth = 2.4 * k; pen.setLineDash([4 * k, 3 * k]); pen.stroke(); pen.setLineDash([]);
      }
      if (!one.up && one.unreached === null) {
        pen.beginPath(); pen.moveTo(a - r, b - r); pen.lineTo(a + r, b + r); pen.moveTo(a + r, b - r); pen.lineTo(a - r, b + r); pen.stroke();
      }
      if (holds || guards) {
        pen.strokeStyle = holds ? look.designs[1] : look.designs[0]; pen.lineWidth = 3.4 * k;
        pen.beginPath(); pen.arc(a, b, r + 5 * k, 0, 2 * Math.PI); pen.stroke();
      }
      if (network.n <= 150) {
        pen.fillStyle = one.up && !one.fenced ? look.paper : look.ink;
        pen.fillText(String(v), one.up ? a : a + 1.75 * r, one.up ? b : b - 1.2 * r);
      }
    }
    if (!$("curves").hidden) { curves.draw(); $("chart").setAttribute("aria-label", `Loss against updates. ${curves.inWords()}.`); }
  }

  const again = () => { Draw.forget(); if (now && !dirty) { dirty = true; requestAnimationFrame(draw); } };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.addEventListener("resize", again);
  const events = new EventSource("events");
  events.addEventListener("hello", (event) => { $("message").textContent = ""; begin(JSON.parse(event.data)); });
  events.addEventListener("frame", (event) => frame(JSON.parse(event.data)));
  events.addEventListener("error", () => { $("message").textContent = "The server does not answer. Start it again with the same command; this page then goes on."; });
  return { state: () => now };
})();
