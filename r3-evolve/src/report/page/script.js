// Shows the variant that is chosen: by a click, by the keyboard, or by the address (#v12). All text goes in as text.
"use strict";
function begin() {
  if (begin.done) return;
  begin.done = true;
  const panel = document.getElementById("variant");
  if (!panel) return;
  let report;
  try {
    report = unpacked(document.getElementById("data").textContent);
  } catch (error) {
    panel.textContent = `Single variants cannot be shown: ${error.message}.`;
    return;
  }
  const { variants } = report;
  const children = new Map();
  for (const one of variants.values()) {
    for (const parent of one.parents) {
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(one.number);
    }
  }

  // What has no shape of its own, or turns the order of letters round, is shown by its number: source must be what it looks like.
  const unseen = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
  const seen = (text) => text.replace(unseen, (letter) => `⟨U+${letter.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

  function element(name, attributes, ...content) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    for (const part of content) {
      if (part !== null && part !== undefined) made.append(typeof part === "string" ? seen(part) : part);
    }
    return made;
  }

  const link = (number) => element("a", { href: "#v" + number, "data-variant": number }, String(number));

  function links(numbers) {
    const all = element("span");
    numbers.forEach((number, index) => all.append(index ? ", " : "", link(number)));
    return all;
  }

  function times(of) {
    if (!of) return "–";
    const { median = 0, low = 0, high = 0 } = of;
    if (low === high) return median.toFixed(4);
    return `${median.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`;
  }

  function pairs(rows) {
    const list = element("dl");
    for (const [name, value] of rows) list.append(element("dt", {}, name), element("dd", {}, value));
    return list;
  }

  function table(headings, rows) {
    const cells = (kind, row) => row.map((cell, column) =>
      element(kind, headings[column].startsWith("#") ? { class: "number" } : {}, cell));
    const names = headings.map((heading) => heading.replace(/^#/, ""));
    return element("div", { class: "scroll" }, element("table", {},
      element("thead", {}, element("tr", {}, ...cells("th", names))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row))))));
  }

  function folded(title, content) {
    return element("details", {}, element("summary", {}, title), content);
  }

  function difference(text) {
    const box = element("pre", { class: "diff", tabindex: "0" });
    const kinds = { "+": "added", "-": "removed", "@": "place" };
    linesOf(text).forEach((line, index) => {
      const kind = index < 2 ? "file" : kinds[line[0]] || "same";
      box.append(element("span", { class: kind }, line));
    });
    return box;
  }

  function code(text) {
    return element("pre", { class: "source", tabindex: "0" }, element("code", {}, text));
  }

  function describe(one) {
    const parts = [];
    parts.push(element("h3", {}, "Variant " + one.number));
    const right = one.verdict === "right";
    parts.push(element("p", {},
      element("span", { class: right ? "verdict right" : "verdict" }, one.verdict),
      one.times ? times(one.times) + " of the captured binary's time" : null));
    if (one.what) parts.push(element("p", {}, one.what));
    if (one.reason) parts.push(element("p", { class: "reason" }, one.reason));
    const facts = [
      ["made by", one.by ? `${one.operator}: ${one.by}` : one.operator],
      ["on island", String(one.island)],
    ];
    if (one.parents.length) facts.push(["from", links(one.parents)]);
    const below = children.get(one.number) || [];
    if (below.length) facts.push(["became", links(below)]);
    facts.push(["tokens", String(one.tokens)], ["distance", one.distance.toFixed(3) + " from the source as given"]);
    if (right) facts.push(["checked", one.checked ? "on every launch, and with perturbed inputs" : "on the launches of the search only"]);
    parts.push(pairs(facts));

    parts.push(element("h4", {}, "Configuration"));
    parts.push(one.configuration.length
      ? element("p", {}, element("code", {}, one.configuration.join(" ")))
      : element("p", {}, "As the text is: nothing was changed."));

    const [text, diff] = [report.text(one.number), report.diff(one.number)];
    if (diff) {
      parts.push(element("h4", {}, "Difference to variant " + one.parents[0]));
      parts.push(difference(diff));
    } else if (one.parents.length) {
      parts.push(element("p", {}, `Its text is that of variant ${one.parents[0]}.`));
    }
    if (text !== undefined) {
      if (one.parents.length) parts.push(folded("Whole file", code(text)));
      else parts.push(element("h4", {}, "Source"), code(text));
    }

    if (one.launches.length) {
      parts.push(element("h4", {}, "Measurements"));
      parts.push(table(["#launch", "", "verdict", "#captured binary", "#variant", "#ratio"], one.launches.map((row) => [
        row.launch || "", row.role || "", row.verdict || "",
        row.took ? row.took[0] : "–", row.took ? row.took[1] : "–", times(row.times),
      ])));
    }
    if (one.limits.length) {
      parts.push(element("h4", {}, "What limits it"));
      parts.push(element("ul", {}, ...one.limits.map((limit) => element("li", {}, limit))));
    }
    if (one.code.length) {
      parts.push(element("h4", {}, "What its code is like"), pairs(one.code));
    }
    if (one.tried.length) {
      const rows = one.tried.map((row) => [
        String(row.number), row.why || "", (row.configuration || []).join(" ") || "–",
        row.verdict || "under way", times(row.times), String(row.pairs || "–"),
      ]);
      parts.push(folded(`Evaluations (${rows.length})`,
        table(["#number", "why", "configuration", "verdict", "#time", "#pairs"], rows)));
    }
    return parts;
  }

  let chosen = null;
  function choose(number, moved) {
    const one = variants.get(number);
    if (!one) return false;
    chosen = number;
    panel.replaceChildren(...describe(one));
    panel.setAttribute("aria-label", "Variant " + number);
    panel.parentElement.classList.add("chosen");
    panel.scrollTop = 0;
    for (const button of document.querySelectorAll(".heat button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.variant) === number));
    }
    if (moved) {
      history.replaceState(null, "", "#v" + number);
      const place = panel.getBoundingClientRect();
      if (place.top < 0 || place.top > innerHeight * 0.6) panel.scrollIntoView({ block: "start" });
    }
    return true;
  }

  document.addEventListener("click", (event) => {
    const from = event.target.closest("[data-variant]");
    if (!from) return;
    event.preventDefault();
    choose(Number(from.dataset.variant), true);
    if (!from.closest(".heat")) panel.focus({ preventScroll: true });
  });

  // Arrows go from cell to cell, over empty ones.
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  document.addEventListener("keydown", (event) => {
    const from = event.target.closest(".heat button");
    const way = ways[event.key];
    if (!from || !way) return;
    event.preventDefault();
    const rows = [...from.closest("tbody").rows];
    let cell = from.parentElement;
    let [column, row] = [cell.cellIndex, rows.indexOf(cell.parentElement)];
    while ((cell = rows[row += way[1]]?.cells[column += way[0]])) {
      const button = cell.querySelector("button");
      if (button) {
        button.focus();
        break;
      }
    }
  });

  // Every variant that was made, by how it came out: what is in no cell can be chosen here. Lists are made when they are opened.
  const outcomes = new Map();
  for (const one of variants.values()) {
    if (!outcomes.has(one.verdict)) outcomes.set(one.verdict, []);
    outcomes.get(one.verdict).push(one);
  }
  const all = document.getElementById("all");
  if (variants.size) all.append(element("h3", {}, "All variants, by how they came out"));
  const cut = (text) => text.length > 140 ? text.slice(0, 140) + "…" : text;
  for (const [verdict, some] of outcomes) {
    const list = element("ul", { class: "outcomes", tabindex: "0" });
    const box = folded(`${verdict} (${some.length})`, list);
    box.addEventListener("toggle", () => {
      list.append(...some.map((one) => element("li", {}, link(one.number), " ",
        one.times ? times(one.times) + " " : null, element("span", { class: "hint" }, cut(one.reason || one.what)))));
    }, { once: true });
    all.append(box);
  }

  const addressed = () => {
    const named = /^#v(\d+)$/.exec(location.hash);
    return named ? choose(Number(named[1]), true) : false;
  };
  addEventListener("hashchange", addressed);
  if (!addressed() && report.best !== null) choose(report.best, false);
}

// After the page was shown: nobody waits for what can only be clicked.
requestAnimationFrame(() => setTimeout(begin));
for (const asked of ["click", "keydown", "hashchange", "beforeprint"]) addEventListener(asked, begin, { capture: true });
