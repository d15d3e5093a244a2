"use strict";
// The page of walks. It is told what happens by `begin` (everything) and `frame` (what is new), and sends commands by
// `send`; whether a server answers (remote.js) or the twin in this page (explain.js) makes no difference here.
const View = (() => {
  const $ = (id) => document.getElementById(id);
  let send = null, told = null, runs = [], curves = null, step = 0, playing = false, speed = 20;
  let dirty = false, slow = 0, spoke = 0, selected = null;
  const times = [];  // milliseconds of script of the last frames

  const { make } = Draw;
  const whole = (v) => Math.round(v).toLocaleString("en");
  const label = (v) => (told.network.names ? told.network.names[v] : String(v));
  const round = (v) => (v < 10 ? String(+v.toFixed(1)) : whole(v));

  function numbers(value) {  // base64 of float32, or numbers already
    if (typeof value !== "string") return value;
    const bytes = Uint8Array.from(atob(value), (c) => c.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  }
  function message(text, good) {
    $("message").textContent = text;
    $("message").classList.toggle("good", Boolean(good));
  }
  async function ask(command) {
    try {
      const answer = await send(command);
      if (answer && answer.error) { message(answer.error); return null; }
      message("");
      return answer;
    } catch (error) {
      message("The server does not answer. Start it again with the same command, and reload this page.");
      return null;
    }
  }

  // --- the beginning -------------------------------------------------------------------------------------------------
  function begin(hello) {
    told = hello;
    playing = hello.playing; speed = hello.speed;
    $("title").textContent = hello.title;
    document.title = hello.title;
    $("seed").value = hello.seed;
    $("panels").replaceChildren(); $("legend").replaceChildren();
    $("panels").className = `of${hello.designs.length}`;
    runs = hello.designs.map((design, i) => panel(design, i));
    curves = new Chart.Curves($("chart"), hello.designs.map((design) => design.name));
    hello.designs.forEach((design, i) => {
      curves.add(i, design.curve);
      const item = make("span", $("legend"));
      make("i", item, { class: `dot d${i}` });
      make("span", item, {}, design.name);
    });
    $("curves").hidden = hello.designs.every((design) => !design.curve.some(([, , error]) => error !== null));
    sliders();
    $("export").hidden = !hello.exports;
    $("link").hidden = hello.kind === "trace" || !hello.linked;
    for (const id of ["seedLabel"]) $(id).hidden = hello.kind === "trace";
    $("speed").value = Math.log10(speed);
    selected = null; $("about").hidden = true;
    frame({ ...hello.frame, playing, speed });
  }

  function panel(design, i) {
    const box = make("article", $("panels"), { class: "panel", "aria-label": design.name });
    const title = make("h2", box);
    make("i", title, { class: `dot d${i}`, "aria-hidden": "true" });
    make("span", title, {}, design.name);
    const sentence = make("p", box, { class: "sentence" });
    const canvas = make("canvas", box, { role: "img", tabindex: "0", "aria-label": `${design.name} on ${told.network.name}` });
    const facts = make("div", box, { class: "facts" });
    const picture = new Draw.Picture(canvas, told.network, i);
    canvas.addEventListener("click", (event) => {
      const v = picture.nearest(event.clientX, event.clientY);
      if (v !== null) select(v);
    });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by === undefined && event.key !== "Enter") return;
      if (!told.network.places) return;
      event.preventDefault();
      const n = told.network.n;
      select(by === undefined || selected === null ? runs[i].node : (selected + by + n) % n);
    });
    return { ...design, box, sentence, canvas, facts, picture, target: numbers(design.target), visits: null, node: null, index: i };
  }

  // --- what is new ---------------------------------------------------------------------------------------------------
  function frame(news) {
    step = news.step; playing = news.playing; speed = news.speed;
    if (news.changes) { news.changes.forEach((changes, i) => { runs[i].changes = changes; }); sliders(true); }
    news.runs.forEach((one, i) => {
      const run = runs[i];
      if (one.visits !== undefined) run.visits = numbers(one.visits);
      else {
        let v = run.node;
        for (const to of one.path) { run.visits[v]++; v = to; }
      }
      run.picture.follow(one.place && !one.path.length ? [one.place] : one.path, one.far);
      if (!one.path.length && !one.place) run.picture.at = one.node;
      Object.assign(run, { node: one.node, dwell: one.dwell, longest: one.longest, transfers: one.transfers, hops: one.hops, error: one.error, aim: one.aim });
      curves.add(i, one.curve);
    });
    $("clock").textContent = whole(step);
    $("play").textContent = playing ? "Pause" : "Play";
    $("play").setAttribute("aria-pressed", String(playing));
    if (!start.later) speedText(speed);
    if (!dirty) { dirty = true; requestAnimationFrame(draw); }
  }

  function draw(now) {
    const began = performance.now();
    dirty = false;
    const rest = now - slow > 220 || !playing;
    for (const run of runs) {
      run.picture.selected = selected;
      if (!playing) run.picture.painted = 0;
      run.picture.draw(run.visits, run.target, step, now);
    }
    if (rest) {
      slow = now;
      if (!$("curves").hidden) { curves.draw(); $("chart").setAttribute("aria-label", `Error against transfers. ${curves.inWords()}.`); }
      for (const run of runs) { say(run); facts(run); }
      if (now - spoke > 4000 || !playing) { spoke = now; $("said").textContent = runs.map((run) => `${run.name} ${run.sentence.textContent}`).join(" "); }
    }
    times.push(performance.now() - began);
    if (times.length > 600) times.shift();
  }

  // --- one sentence --------------------------------------------------------------------------------------------------
  const independent = (share) => (share >= 1 ? Infinity : 1 / (1 - share));
  const trapped = (run) => run.dwell >= 10 && run.dwell > 5 * independent(run.aim);
  function sentenceOf(run) {
    const updates = (k) => `${whole(k)} update${k === 1 ? "" : "s"}`;
    if (step === 0) return `starts at node ${label(run.node)}.`;
    if (trapped(run))
      return `is trapped: it has stayed at node ${label(run.node)} for ${updates(run.dwell)}; independent sampling would stay ${round(independent(run.aim))}.`;
    const last = run.changes.length > 1 ? run.changes[run.changes.length - 1] : null;
    const since = last && last[1] > 0 ? `has jumped since step ${whole(last[0])}: it` : "";
    return `${since} is at node ${label(run.node)} and moves on; its longest stay so far was ${updates(Math.max(run.longest, 1))}.`.trim();
  }
  function say(run) {
    const text = sentenceOf(run);
    if (run.sentence.textContent !== text) run.sentence.textContent = text;
    run.box.classList.toggle("trapped", trapped(run));
    run.canvas.setAttribute("aria-label", `${run.name} on ${told.network.name}, step ${whole(step)}: ${text}`);
  }

  // --- bars ----------------------------------------------------------------------------------------------------------
  function busiest(run) {
    if (!told.network.places) return [];
    const found = new Set(run.largest.slice(0, 3));
    let top = [];
    for (let v = 0; v < run.visits.length; v++) {
      if (top.length < 4 || run.visits[v] > run.visits[top[top.length - 1]]) {
        top.push(v); top.sort((a, b) => run.visits[b] - run.visits[a]); top = top.slice(0, 4);
      }
    }
    for (const v of top) if (found.size < 4 && run.visits[v] > 0) found.add(v);
    return [...found];
  }
  function bar(run, name, share, tick, value) {
    make("span", run.facts, {}, name);
    const box = make("span", run.facts, { class: "bar" });
    make("i", box, { class: `d${run.index}` }).style.width = `${100 * Math.min(1, share)}%`;
    if (tick !== null) make("b", box).style.left = `calc(${100 * Math.min(1, tick)}% - 1px)`;
    make("span", run.facts, { class: "value" }, value);
  }
  function facts(run) {
    run.facts.replaceChildren();
    const most = Math.max(10, ...runs.map((one) => one.longest)), log = (v) => Math.log(1 + v) / Math.log(1 + most);
    make("span", run.facts, { class: "head" }, "Stay, in updates (tick: independent sampling)");
    const calm = log(independent(run.aim));
    bar(run, "now", log(run.dwell), calm, whole(run.dwell));
    bar(run, "longest", log(run.longest), calm, whole(run.longest));
    const rows = busiest(run).map((v) => ({ v, got: run.visits[v] / Math.max(step, 1), aim: run.target[v] }));
    if (rows.length) make("span", run.facts, { class: "head" }, "Share of updates (tick: target)");
    const scale = Math.max(0.01, ...rows.map((row) => Math.max(row.got, row.aim)));
    for (const { v, got, aim } of rows) bar(run, `node ${label(v)}`, got / scale, aim / scale, Chart.percent(got));
  }

  // --- a node --------------------------------------------------------------------------------------------------------
  async function select(v) {
    selected = v;
    const found = await ask({ do: "node", node: v });
    if (!found) return;
    const box = $("about");
    box.hidden = false; box.replaceChildren();
    const importance = found.smoothness === null ? "" : `, importance L = ${+found.smoothness.toPrecision(4)}`;
    make("h2", box, {}, `Node ${found.name}: ${found.degree} neighbour${found.degree === 1 ? "" : "s"}${importance}`);
    const table = make("table", box), head = make("tr", make("thead", table));
    for (const text of ["design", "updates", "share", "target", "mean stay", "independent sampling would stay"]) make("th", head, { scope: "col" }, text);
    const body = make("tbody", table);
    for (const run of found.runs) {
      const row = make("tr", body);
      make("th", row, { scope: "row" }, run.design);
      const cells = [whole(run.visits), Chart.percent(run.share), Chart.percent(run.target), run.visits ? round(run.dwell) : "–", run.independent === null ? "for ever" : round(run.independent)];
      for (const text of cells) make("td", row, {}, text);
    }
    if (!dirty) { dirty = true; requestAnimationFrame(draw); }
  }

  // --- controls ------------------------------------------------------------------------------------------------------
  function speedText(value) {
    const text = `${whole(value)} step${value < 1.5 ? "" : "s"} a second`;
    $("speedText").textContent = text;
    $("speed").setAttribute("aria-valuetext", text);
  }
  const chosen = () => Number($("which").value || 0);
  function sliders(keep) {
    const free = runs.filter((run) => run.changes.length);
    $("jumps").hidden = !free.length;
    if (!keep) {
      $("which").replaceChildren();
      for (const run of free) make("option", $("which"), { value: String(run.index) }, run.name);
      const calm = free.find((run) => run.name.startsWith("WeightRW")) || free[0];
      if (calm) $("which").value = String(calm.index);
    }
    if (free.length && !(keep && document.activeElement && document.activeElement.closest("#jumps label"))) {
      const [, pJump, pDistance, maxHops] = runs[chosen()].changes[runs[chosen()].changes.length - 1];
      $("pJump").value = pJump; $("pDistance").value = pDistance; $("maxHops").value = maxHops;
    }
    sliderTexts();
  }
  function sliderTexts() {
    for (const id of ["pJump", "pDistance"]) $(`${id}Text`).textContent = Number($(id).value).toFixed(id === "pJump" ? 3 : 2);
    $("maxHopsText").textContent = `${$("maxHops").value} hop${$("maxHops").value === "1" ? "" : "s"}`;
    $("maxHops").setAttribute("aria-valuetext", $("maxHopsText").textContent);
  }
  function slide() {
    sliderTexts();
    clearTimeout(slide.later);
    slide.later = setTimeout(() => ask({
      do: "change", design: chosen(), p_jump: Number($("pJump").value), p_distance: Number($("pDistance").value), max_hops: Number($("maxHops").value),
    }), 80);
  }
  function link() {
    const changes = [];
    runs.forEach((run, i) => run.changes.forEach((piece) => changes.push([i, ...piece].join(":"))));
    const state = new URLSearchParams({ seed: told.seed, step, speed: Math.round(speed) });
    if (told.network.key) state.set("network", told.network.key);
    if (changes.length) state.set("changes", changes.join(";"));
    return `${location.href.split("#")[0]}#${state}`;
  }
  function fromLink(text) {  // the command that reproduces the view of a link, or null
    const state = new URLSearchParams(text.replace(/^#/, ""));
    if (!state.has("step")) return null;
    const changes = (state.get("changes") || "").split(";").filter(Boolean).map((one) => one.split(":").map(Number));
    return { do: "restart", seed: Number(state.get("seed")), step: Number(state.get("step")), changes, network: state.get("network"), speed: Number(state.get("speed")) || 20 };
  }

  function save(blob, name) {
    const at = make("a", document.body, { href: URL.createObjectURL(blob), download: name });
    at.click();
    setTimeout(() => { URL.revokeObjectURL(at.href); at.remove(); }, 1000);
  }
  function png() {  // the panels side by side, their sentences, and the curves, as one picture
    const look = Draw.colours(), side = 520, gap = 24, head = 92, chart = $("curves").hidden ? 0 : 300;
    const canvas = make("canvas");
    canvas.width = gap + runs.length * (side + gap); canvas.height = head + side + gap + chart;
    const pen = canvas.getContext("2d");
    pen.fillStyle = look.paper; pen.fillRect(0, 0, canvas.width, canvas.height);
    runs.forEach((run, i) => {
      const x = gap + i * (side + gap), words = run.sentence.textContent.split(" ");
      pen.fillStyle = look.designs[i]; pen.font = "600 18px system-ui, sans-serif"; pen.fillText(run.name, x, 26);
      pen.fillStyle = look.ink; pen.font = "15px system-ui, sans-serif";
      let line = "", y = 48;
      for (const word of words) {
        if (pen.measureText(`${line} ${word}`).width > side) { pen.fillText(line, x, y); line = word; y += 19; } else line = line ? `${line} ${word}` : word;
      }
      pen.fillText(line, x, y);
      const k = Math.min(side / run.canvas.width, side / run.canvas.height), w = k * run.canvas.width, h = k * run.canvas.height;
      pen.drawImage(run.canvas, x + (side - w) / 2, head + (side - h) / 2, w, h);
    });
    if (chart) pen.drawImage($("chart"), gap, head + side + gap / 2, canvas.width - 2 * gap, chart - gap);
    canvas.toBlob((blob) => save(blob, `levywalk-step-${step}.png`));
    return canvas;
  }
  async function showExport() {
    const found = await ask({ do: "export" });
    if (!found) return;
    $("command").textContent = found.command; $("toml").textContent = found.toml;
    $("save").onclick = () => save(new Blob([found.toml], { type: "application/toml" }), found.file);
    $("exported").showModal();
  }

  function start(by) {
    send = by;
    $("play").addEventListener("click", () => ask({ do: playing ? "pause" : "play" }));
    $("step").addEventListener("click", () => ask({ do: "step", steps: 1 }));
    $("speed").addEventListener("input", () => {
      const wanted = Math.max(1, Math.min(1e6, Math.round(10 ** Number($("speed").value))));
      speedText(wanted);
      clearTimeout(start.later);
      start.later = setTimeout(() => { start.later = null; ask({ do: "speed", speed: wanted }); }, 60);
    });
    $("restart").addEventListener("click", () => ask({ do: "restart", seed: Number($("seed").value) }));
    $("seed").addEventListener("keydown", (event) => { if (event.key === "Enter") $("restart").click(); });
    $("which").addEventListener("change", () => sliders(true));
    for (const id of ["pJump", "pDistance", "maxHops"]) $(id).addEventListener("input", slide);
    $("link").addEventListener("click", async () => {
      const address = link();
      history.replaceState(null, "", address);
      try { await navigator.clipboard.writeText(address); message("The link is copied: it shows this step again.", true); } catch { message("The link is in the address bar.", true); }
    });
    $("png").addEventListener("click", png);
    $("export").addEventListener("click", showExport);
    $("close").addEventListener("click", () => $("exported").close());
    document.addEventListener("keydown", (event) => {
      if (event.target.closest("input, select, button, dialog, summary, a, pre") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === " ") { event.preventDefault(); $("play").click(); }
      if (event.key === ".") $("step").click();
    });
    const again = () => { Draw.forget(); for (const run of runs) { run.picture.stale = true; } if (runs.length && !dirty) { dirty = true; slow = 0; requestAnimationFrame(draw); } };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    window.addEventListener("resize", again);
  }
  return { start, begin, frame, fromLink, link, png, message, times, state: () => ({ step, playing, speed, selected, runs, told }) };
})();
