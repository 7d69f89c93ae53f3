// What was packed when the page was written: base64, deflated JSON, and in it texts as differences.
"use strict";

// The bytes of a deflated stream (RFC 1951).
function inflate(from) {
  let out = new Uint8Array(from.length * 8 + 1024);
  let [size, at, hold, held] = [0, 0, 0, 0];

  const fill = (count) => {
    while (held < count) {
      // The last symbols may look ahead of the end.
      if (at > from.length + 4) throw new Error("the data is damaged");
      hold |= from[at++] << held;
      held += 8;
    }
  };
  const bits = (count) => {
    fill(count);
    const value = hold & ((1 << count) - 1);
    hold >>>= count;
    held -= count;
    return value;
  };
  const room = (count) => {
    if (size + count <= out.length) return;
    const more = new Uint8Array(2 * (size + count));
    more.set(out);
    out = more;
  };

  // Codes of symbols, by their lengths: an entry for whatever the next bits may be.
  const table = (lengths) => {
    const width = Math.max(1, ...lengths);
    const entries = new Uint16Array(1 << width);
    let code = 0;
    for (let length = 1; length <= width; length++) {
      for (let symbol = 0; symbol < lengths.length; symbol++) {
        if (lengths[symbol] !== length) continue;
        let place = 0;
        for (let bit = 0; bit < length; bit++) place |= ((code >> bit) & 1) << (length - 1 - bit);
        for (; place < entries.length; place += 1 << length) entries[place] = symbol << 4 | length;
        code++;
      }
      code <<= 1;
    }
    return { width, entries };
  };
  const symbol = ({ width, entries }) => {
    fill(width);
    const entry = entries[hold & (entries.length - 1)];
    if (!entry) throw new Error("the data is damaged");
    hold >>>= entry & 15;
    held -= entry & 15;
    return entry >>> 4;
  };

  // What a code of a length or of a distance begins at, and how many bits more it has.
  const spans = (count, begin, extra) => {
    const all = [];
    for (let code = 0; code < count; code++) {
      all.push([begin, extra(code)]);
      begin += 1 << extra(code);
    }
    return all;
  };
  const lengths = spans(28, 3, (code) => code < 8 ? 0 : (code - 4) >> 2).concat([[258, 0]]);
  const distances = spans(30, 1, (code) => code < 4 ? 0 : (code - 2) >> 1);
  const repeated = (times, value) => new Array(times).fill(value);
  const order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

  const tables = (kind) => {
    if (kind === 1) {
      const fixed = [...repeated(144, 8), ...repeated(112, 9), ...repeated(24, 7), ...repeated(8, 8)];
      return [table(fixed), table(repeated(30, 5))];
    }
    const [literals, far, count] = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
    const short = repeated(19, 0);
    for (let place = 0; place < count; place++) short[order[place]] = bits(3);
    const codes = table(short);
    const all = [];
    while (all.length < literals + far) {
      const code = symbol(codes);
      if (code < 16) all.push(code);
      else if (code === 16) all.push(...repeated(3 + bits(2), all[all.length - 1]));
      else all.push(...repeated(code === 17 ? 3 + bits(3) : 11 + bits(7), 0));
    }
    return [table(all.slice(0, literals)), table(all.slice(literals))];
  };

  for (let last = false; !last;) {
    last = bits(1) === 1;
    const kind = bits(2);
    if (kind === 0) {
      at -= held >> 3;
      hold = held = 0;
      const count = from[at] | from[at + 1] << 8;
      room(count);
      out.set(from.subarray(at + 4, at + 4 + count), size);
      at += 4 + count;
      size += count;
      continue;
    }
    const [literal, distance] = tables(kind);
    for (;;) {
      const code = symbol(literal);
      if (code === 256) break;
      if (code < 256) {
        room(1);
        out[size++] = code;
        continue;
      }
      const [length, more] = lengths[code - 257];
      const count = length + bits(more);
      const [begin, further] = distances[symbol(distance)];
      const back = begin + bits(further);
      room(count);
      for (const end = size + count; size < end; size++) out[size] = out[size - back];
    }
  }
  return out.subarray(0, size);
}

function linesOf(text) {
  return text.match(/[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$/g) || [];
}

// What an edit makes of a parent's text: the text, and the whole difference without its head.
function applied(parent, edit) {
  const old = linesOf(parent);
  const [text, diff] = [[], []];
  let at = 0;
  for (const line of linesOf(edit)) {
    const kind = line[0];
    if (kind === "@") {
      const [, from, count] = /^@@ -(\d+)(?:,(\d+))?/.exec(line);
      const begin = count === "0" ? Number(from) : from - 1;
      while (at < begin) text.push(old[at++]);
      diff.push(line);
    } else if (kind === "+") {
      text.push(line.slice(1));
      diff.push(line);
    } else if (kind === "\\") {
      // The line before has no end.
      if (diff[diff.length - 1][0] === "+") text.push(text.pop().replace(/\n$/, ""));
      diff.push(line);
    } else {
      const one = old[at++];
      diff.push(kind + one + (/[\r\n]$/.test(one) ? "" : "\n"));
      if (kind === " ") text.push(one);
    }
  }
  return { text: text.join("") + old.slice(at).join(""), diff: diff.join("") };
}

// The report whose data is in an element. Texts and differences are made when somebody wants them.
function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const report = JSON.parse(new TextDecoder().decode(inflate(bytes)));
  const nothing = {
    operator: "", by: "", what: "", island: 0, tokens: 0, distance: 0, verdict: "",
    parents: [], configuration: [], code: [], limits: [], launches: [], tried: [],
  };
  const variants = new Map((report.variants || []).map((one) => [one.number, { ...nothing, ...one }]));

  const texts = new Map();
  // From the first one whose text is there: ways may be longer than calls can be nested.
  function text(number) {
    const way = [];
    let one = variants.get(number);
    while (one && !texts.has(one.number)) {
      way.push(one);
      if (one.text !== undefined || !(one.edit || one.diff === undefined)) break;
      // A parent is older than what comes of it: so the way has an end.
      const parent = variants.get(one.parents[0]);
      one = parent && parent.number < one.number ? parent : undefined;
    }
    for (const next of way.reverse()) {
      const before = texts.get(next.parents[0]);
      if (next.text !== undefined) texts.set(next.number, next.text);
      else if (before === undefined) continue;
      else if (next.edit) texts.set(next.number, applied(before, next.edit).text);
      else if (next.diff === undefined) texts.set(next.number, before);
    }
    return texts.get(number);
  }
  function diff(number) {
    const one = variants.get(number);
    if (one.diff !== undefined) return one.diff;
    const before = one.edit ? text(one.parents[0]) : undefined;
    if (before === undefined) return "";
    return `--- variant ${one.parents[0]}\n+++ variant ${number}\n` + applied(before, one.edit).diff;
  }
  return { best: report.best, variants, text, diff };
}
