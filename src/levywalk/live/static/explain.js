"use strict";
// The page that opens from disk: the twin of the rule walks here, in the browser.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const FASTEST = 100000, WORK = 12;  // steps a second; milliseconds of work in a frame
  const floats = (text) => { const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0)); return new Float64Array(bytes.buffer); };
  const networks = data.networks.map((one) => {
    const indptr = [0], indices = one.neighbours.flat();
    for (const near of one.neighbours) indptr.push(indptr[indptr.length - 1] + near.length);
    const lines = one.neighbours.flatMap((near, u) => near.filter((v) => u < v).map((v) => [u, v]));
    const problem = { dim: one.dim, features: floats(one.features), targets: floats(one.targets), smoothness: floats(one.smoothness), optimum: floats(one.optimum) };
    const picture = { name: one.name, key: one.key, n: one.neighbours.length, edges: lines.length, places: one.places, lines, degree: one.neighbours.map((near) => near.length), smoothness: [...problem.smoothness] };
    return { ...one, net: { indptr, indices }, problem, picture };
  });
  let here = networks[0], seed = data.seed, walkers = [], playing = false, speed = 20, due = 0, last = 0, rate = 20000;

  class Followed {  // a walker, and what the page wants to know of its way
    constructor(design) {
      this.design = design;
      this.walker = new Twin.Walker(here.net, here.problem, design, seed);
      this.dwell = 0; this.longest = 0; this.arrivals = new Uint32Array(here.net.indptr.length - 1);
      this.arrivals[this.walker.node] = 1;
      this.changes = [[0, design.pJump, design.pDistance, design.maxHops]];
      this.curve = [this.point()];
      this.clear();
    }
    point() { return [this.walker.step, this.walker.transfers, this.walker.distance2()]; }
    clear() { this.path = []; this.far = []; this.points = []; }
    advance(steps) {
      const { walker } = this;
      for (let k = 0; k < steps; k++) {
        const from = walker.node, hops = walker.hops;
        walker.advance();
        if (walker.node === from) this.dwell++;
        else { this.longest = Math.max(this.longest, this.dwell + 1); this.dwell = 0; this.arrivals[walker.node]++; }
        if (steps - k <= 256) { this.path.push(walker.node); this.far.push(walker.hops - hops); }
      }
      this.longest = Math.max(this.longest, this.dwell);
      this.points.push(this.point()); this.curve.push(this.point());
    }
    jumpBy(...jumps) {
      const at = this.walker.step;
      this.changes = [...this.changes.filter(([begin]) => begin < at), [at, ...jumps]];
      this.walker.jumpBy(...jumps);
    }
    news(whole) {
      const { walker } = this;
      const found = { node: walker.node, transfers: walker.transfers, hops: walker.hops, dwell: this.dwell, longest: this.longest, error: walker.distance2(), aim: walker.law[walker.node], path: this.path, far: this.far, curve: this.points };
      if (whole) found.visits = Float32Array.from(walker.visits);
      this.clear();
      return found;
    }
  }

  const step = () => walkers[0].walker.step;
  const frame = (whole, more) => ({ step: step(), playing, speed, runs: walkers.map((one) => one.news(whole)), ...more });
  function forward(steps) {
    const began = performance.now();
    for (const one of walkers) one.advance(steps);
    if (steps > 50) rate = 0.7 * rate + 0.3 * ((1000 * steps) / Math.max(performance.now() - began, 0.1));
    View.frame(frame(steps > 256));
  }
  function begin() {
    View.begin({
      kind: "explain", linked: true, seed, title: `A model walks over ${here.title}`, playing, speed, exports: true, end: null, network: here.picture,
      designs: walkers.map((one) => ({ name: one.design.name, target: one.walker.law, largest: largest(one.walker.law), changes: one.changes, curve: one.curve })),
      frame: { step: step(), runs: walkers.map((one) => one.news(true)) },
    });
  }
  function largest(law) {
    const order = [...law.keys()].sort((a, b) => law[b] - law[a]);
    return law[order[0]] > 1.001 * law[order[order.length - 1]] ? order.slice(0, 5) : [];
  }
  function restart({ seed: wanted, step: goal = 0, changes = [], network }) {
    if (!Number.isSafeInteger(wanted) || wanted < 0) return { error: `seed must be a whole number from 0 to 2^53, got ${wanted}` };
    if (!Number.isSafeInteger(goal) || goal < 0 || goal > 1e7) return { error: `step must be a whole number up to 10,000,000, got ${goal}` };
    here = networks.find((one) => one.key === network) || here;
    document.getElementById("network").value = here.key;
    seed = wanted;
    walkers = data.designs.map((design) => new Followed(design));
    walkers.forEach((one, i) => {
      for (const [design, at, ...jumps] of changes.filter((row) => row[0] === i && row.length === 5).sort((a, b) => a[1] - b[1])) {
        if (design !== i) continue;
        one.advance(Math.max(0, Math.min(at, goal) - one.walker.step)); one.jumpBy(...jumps);
      }
      one.advance(goal - one.walker.step);
      one.clear();
    });
    begin();
    return {};
  }
  function node(v) {
    return {
      node: v, name: String(v), degree: here.picture.degree[v], smoothness: here.problem.smoothness[v],
      runs: walkers.map((one) => {
        const { walker } = one, share = walker.law[v];
        return { design: one.design.name, visits: walker.visits[v], share: walker.visits[v] / Math.max(step(), 1), target: share, dwell: walker.visits[v] / Math.max(one.arrivals[v], 1), independent: share < 1 ? 1 / (1 - share) : null };
      }),
    };
  }
  function exported() {
    const table = (title, values) => [`[${title}]`, ...Object.entries(values).map(([key, value]) => `${key} = ${JSON.stringify(value)}`), ""].join("\n");
    const steps = Math.max(step(), 1), changed = (one) => one.changes.length > 1 || one.changes[0].some((x, k) => x !== [0, one.design.pJump, one.design.pDistance, one.design.maxHops][k]);
    const parts = [
      `# The walks of the page until step ${steps}. Save this file as explain.toml and type: levywalk run explain.toml\n`,
      table("network", here.recipe), table("problem", here.data),
      table("run", { steps, replicas: 1, seed, step_size: "theory", record_walk: true }),
      ...walkers.map((one) => table(`designs.${one.design.name}`, changed(one)
        ? { kind: "changing_jumps", target: one.design.target, begins: one.changes.map((c) => c[0]), p_jump: one.changes.map((c) => c[1]), p_distance: one.changes.map((c) => c[2]), max_hops: one.changes.map((c) => c[3]) }
        : { kind: one.design.kind })),
      table("output", { folder: "levywalk-explain" }),
    ];
    return { command: "levywalk run explain.toml", file: "explain.toml", toml: parts.join("\n") };
  }
  function tick(now) {
    if (!playing) return;
    due += Math.min(speed, FASTEST) * Math.min((now - last) / 1000, 0.25);
    last = now;
    const steps = Math.floor(Math.min(due, Math.max(1, (rate * WORK) / 1000)));
    due = Math.min(due - steps, 0.2 * speed + 1);
    if (steps) forward(steps);
    requestAnimationFrame(tick);
  }
  const commands = {
    play() { if (!playing) { playing = true; due = 1; last = performance.now(); requestAnimationFrame(tick); } View.frame(frame(false)); },
    pause() { playing = false; View.frame(frame(false)); },
    step({ steps }) { playing = false; forward(Math.max(1, Math.min(100000, steps || 1))); },
    speed(given) { speed = given.speed; due = Math.min(due, 1); View.frame(frame(false)); },
    node: (given) => node(given.node),
    export: exported,
    restart,
    change({ design, p_jump: p, p_distance: d, max_hops: r }) { walkers[design].jumpBy(p, d, r); View.frame(frame(false, { changes: walkers.map((one) => one.changes) })); },
  };
  View.start(async (command) => commands[command.do](command) || {});
  document.getElementById("networkLabel").hidden = false;
  const choice = document.getElementById("network");
  for (const one of networks) { const option = document.createElement("option"); option.value = one.key; option.textContent = one.title; choice.append(option); }
  choice.addEventListener("change", () => restart({ seed, network: choice.value }));
  const given = View.fromLink(location.hash);
  if (given) { speed = given.speed; restart(given); } else restart({ seed });
})();
