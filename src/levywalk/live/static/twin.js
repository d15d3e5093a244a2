"use strict";
// The rule of the walk in the browser: a twin of levywalk.draws (version 1), walks.rule, walks.jump and of the update of
// least squares. Its walks are those of lw.walk and lw.run step for step; tests/browser/test_twin.py compares them.
// A 64-bit number is two unsigned halves of 32 bits. Functions leave their result in `hi` and `lo`, so that a step
// allocates nothing.
const Twin = (() => {
  let hi = 0, lo = 0;
  const STEP = [0x9E3779B9, 0x7F4A7C15], SLOT = [0xD1B54A32, 0xD192ED03];
  const MIX_1 = [0xBF58476D, 0x1CE4E5B9], MIX_2 = [0x94D049BB, 0x133111EB];
  const WALK = 0, START = 1;  // domains
  const TWO_32 = 4294967296;

  function high(a, b) {  // the upper half of a product of two halves
    const a0 = a & 0xFFFF, a1 = a >>> 16, b0 = b & 0xFFFF, b1 = b >>> 16;
    const one = ((a0 * b0) >>> 16) + a0 * b1;
    const two = a1 * b0 + (one & 0xFFFF);
    return (a1 * b1 + (one >>> 16) + (two >>> 16)) >>> 0;
  }
  function times(by) {
    hi = (high(lo, by[1]) + Math.imul(hi, by[1]) + Math.imul(lo, by[0])) >>> 0;
    lo = Math.imul(lo, by[1]) >>> 0;
  }
  function plus(h, l) {
    const sum = lo + l;
    hi = (hi + h + (sum >= TWO_32 ? 1 : 0)) >>> 0;
    lo = sum >>> 0;
  }
  function shiftXor(by) {  // z ^= z >> by, for 0 < by < 32
    const down = ((lo >>> by) | (hi << (32 - by))) >>> 0;
    hi = (hi ^ (hi >>> by)) >>> 0;
    lo = (lo ^ down) >>> 0;
  }
  function mix64() { shiftXor(30); times(MIX_1); shiftXor(27); times(MIX_2); shiftXor(31); }

  // numpy's SeedSequence(seed, spawn_key=(domain, replica)).generate_state(2, uint64): the key's halves k0 and k1.
  function seedSequence(seed, spawn) {
    const entropy = [seed >>> 0];
    if (seed >= TWO_32) entropy.push(Math.floor(seed / TWO_32) >>> 0);
    while (entropy.length < 4) entropy.push(0);
    entropy.push(...spawn);
    let constant = 0x43B0D7E5;
    const hashed = (value) => {
      value ^= constant;
      constant = Math.imul(constant, 0x931E8875);
      value = Math.imul(value, constant);
      return (value ^ (value >>> 16)) >>> 0;
    };
    const mixed = (x, y) => {
      const found = (Math.imul(0xCA01F9DD, x) - Math.imul(0x4973F715, y)) | 0;
      return (found ^ (found >>> 16)) >>> 0;
    };
    const pool = [0, 1, 2, 3].map((i) => hashed(entropy[i]));
    for (let from = 0; from < 4; from++)
      for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mixed(pool[to], hashed(pool[from]));
    for (let from = 4; from < entropy.length; from++)
      for (let to = 0; to < 4; to++) pool[to] = mixed(pool[to], hashed(entropy[from]));
    constant = 0x8B51F9DD;
    const out = pool.map((value) => {
      value ^= constant;
      constant = Math.imul(constant, 0x58F38DED);
      value = Math.imul(value, constant);
      return (value ^ (value >>> 16)) >>> 0;
    });
    return [[out[1], out[0]], [out[3], out[2]]];
  }

  function keyOf(seed, domain, replica) {  // the expanded pair (a, b)
    const [k0, k1] = seedSequence(seed, [domain, replica]);
    [hi, lo] = k1; plus(...STEP); mix64();
    hi = (hi ^ k0[0]) >>> 0; lo = (lo ^ k0[1]) >>> 0; mix64();
    const a = [hi, lo];
    plus(...SLOT); mix64();
    hi = (hi ^ k1[0]) >>> 0; lo = (lo ^ k1[1]) >>> 0; mix64();
    return { a, b: [hi, lo] };
  }
  function stepHash(key, step) {
    hi = Math.floor(step / TWO_32) >>> 0; lo = step >>> 0;
    times(STEP); plus(key.a[0], key.a[1]);
    shiftXor(30); times(MIX_1);
    hi = (hi ^ key.b[0]) >>> 0; lo = (lo ^ key.b[1]) >>> 0;
    shiftXor(27); times(MIX_2); shiftXor(31);
  }
  function slotWord(hashHi, hashLo, slot) {
    hi = 0; lo = slot >>> 0;
    times(SLOT); plus(hashHi, hashLo); mix64();
  }
  const unitOf = (h, l) => (h * 2097152 + (l >>> 11)) * 2 ** -53;
  let fraction = 0;
  function split(count) {  // the index; the uniform is left in `fraction`
    const low = lo * count, total = hi * count + Math.floor(low / TWO_32);
    const index = Math.floor(total / TWO_32);
    fraction = unitOf(total - index * TWO_32, low % TWO_32);
    return index;
  }

  function reach(pDistance, maxHops) {  // P(d <= 1), ..., of the truncated geometric law
    const law = Array.from({ length: maxHops }, (_, i) => pDistance * (1 - pDistance) ** i);
    const sum = law.reduce((a, b) => a + b, 0);
    let so = 0;
    const out = law.map((p) => (so += p / sum));
    out[maxHops - 1] = 1;
    return out;
  }

  // One walker. `net` has indptr and indices; `problem` has dim, features, targets (one sample a node) and smoothness;
  // `design` has target ("uniform" or "importance"), pJump, pDistance, maxHops and stepSize (a number, or "theory").
  class Walker {
    constructor(net, problem, design, seed) {
      const n = net.indptr.length - 1;
      this.net = net; this.problem = problem; this.n = n; this.step = 0;
      this.scores = design.target === "importance" ? problem.smoothness : new Float64Array(n).fill(1);
      const sum = this.scores.reduce((a, b) => a + b, 0), mean = sum / n;
      this.law = Float64Array.from(this.scores, (t) => t / sum);
      this.weights = Float64Array.from(this.scores, (t) => mean / t);
      this.ratio = Float64Array.from(this.scores, (t, v) => t / (net.indptr[v + 1] - net.indptr[v]));
      const largest = this.weights.reduce((most, w, v) => Math.max(most, w * problem.smoothness[v]), 0);
      this.stepSize = design.stepSize === "theory" ? 1 / largest : design.stepSize;
      this.key = keyOf(seed, WALK, 0);
      stepHash(keyOf(seed, START, 0), 0);
      this.node = split(n);
      this.model = new Float64Array(problem.dim);
      this.visits = new Uint32Array(n);
      this.hops = 0; this.transfers = 0;
      this.jumpBy(design.pJump, design.pDistance, design.maxHops);
    }
    jumpBy(pJump, pDistance, maxHops) {
      this.pJump = pJump;
      this.reach = reach(pDistance, maxHops);
    }
    neighbour(v, index) { return this.net.indices[this.net.indptr[v] + index]; }
    degree(v) { return this.net.indptr[v + 1] - this.net.indptr[v]; }
    distance2() {
      const { optimum } = this.problem;
      return this.model.reduce((sum, x, i) => sum + (x - optimum[i]) ** 2, 0);
    }
    // One update and one move.
    advance() {
      let v = this.node;
      this.visits[v]++;
      const { dim, features, targets } = this.problem, x = this.model, at = v * dim;
      let residual = -targets[v];
      for (let i = 0; i < dim; i++) residual += features[at + i] * x[i];
      const by = this.stepSize * this.weights[v] * 2 * residual;
      for (let i = 0; i < dim; i++) x[i] -= by * features[at + i];
      stepHash(this.key, this.step++);
      const hashHi = hi, hashLo = lo, uniform = unitOf(hi, lo);
      if (uniform < this.pJump) {
        let distance = 1;
        while (uniform >= this.pJump * this.reach[distance - 1]) distance++;
        for (let i = 0; i < distance; i++) {
          slotWord(hashHi, hashLo, 1 + i);
          v = this.neighbour(v, split(this.degree(v)));
        }
        this.hops += distance; this.transfers += distance;
      } else {
        slotWord(hashHi, hashLo, 1);
        const other = this.neighbour(v, split(this.degree(v)));
        if (fraction * this.ratio[v] < this.ratio[other] && other !== v) { v = other; this.transfers++; }
        this.hops++;
      }
      this.node = v;
    }
  }
  return { Walker, keyOf, seedSequence, word(key, step, slot) { stepHash(key, step); if (slot) slotWord(hi, lo, slot); return [hi, lo]; } };
})();
if (typeof module !== "undefined") module.exports = Twin;
