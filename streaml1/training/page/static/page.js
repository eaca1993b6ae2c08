// The page: fills in the sections that the server sends. Every name is set as text, never as markup.
"use strict";

(() => {
  const { short, four } = Charts;
  const by = (id) => document.getElementById(id);
  const embedded = by("data");
  const latest = {};

  function make(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) {
      element.textContent = text;
    }
    if (className) {
      element.className = className;
    }
    return element;
  }

  function signed(value) {
    return value === null ? "-" : (value > 0 ? "+" : "") + four(value);
  }

  // Models that scale values also bound them and shift their origin: then this is no product.
  function factors(item) {
    const product = item.value * item.weight;
    const isProduct = Math.abs(product - item.contribution) <= 1e-3 * Math.abs(product);
    return `${four(item.value)} ${isProduct ? "\u00d7" : "with weight"} ${signed(item.weight)}`;
  }

  function fill(table, rows) {
    by(table).tBodies[0].replaceChildren(...rows);
  }

  function row(...cells) {
    const tr = make("tr");
    tr.append(...cells);
    return tr;
  }

  // A long name is cut after a few lines; its tooltip and copies of it have all of it.
  function nameCell(name, label) {
    const cell = make("td", undefined, "name"), text = make("div", undefined, "clipped");
    text.append(make("bdi", name));
    text.title = name;
    if (label !== undefined) {
      text.append(make("span", label, "label"));
    }
    cell.append(text);
    return cell;
  }

  // Values over time as a small curve.
  function sparkline(values) {
    const known = values.filter((value) => value !== null);
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("class", "spark");
    svg.setAttribute("viewBox", "0 0 72 16");
    svg.setAttribute("aria-hidden", "true");
    if (known.length > 1) {
      const low = Math.min(...known), height = Math.max(...known) - low || 1;
      const points = known.map((value, k) => `${(2 + (68 * k) / (known.length - 1)).toFixed(1)},${(14 - (12 * (value - low)) / height).toFixed(1)}`);
      const line = document.createElementNS(space, "polyline");
      line.setAttribute("points", points.join(" "));
      svg.append(line);
    }
    return svg;
  }

  function duration(seconds) {
    if (seconds < 1) {
      return "less than 1 s";
    }
    if (seconds < 120) {
      return `${Math.round(seconds)} s`;
    }
    return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
  }

  const percent = (value) => `${(100 * value).toFixed(1)} %`;

  const TILES = [
    ["Examples", "examples", (v) => v.toLocaleString("en")],
    ["Per second", "per_second", short],
    ["Recent loss", "recent_loss", four],
    ["Beats baseline by", "better", percent],
    ["Non-zeros", "nonzero", (v) => v.toLocaleString("en")],
    ["Calibration", "calibration", (v) => v.toFixed(3)],
    ["Lag", "lag", (v) => v.toLocaleString("en")],
    ["Checkpoint age", "checkpoint_age", duration],
  ];

  function showHealth(status, words) {
    by("health").className = status;
    by("health").textContent = words;
  }

  const SECTIONS = {
    run(section) {
      by("title").textContent = section.title;
      document.title = `${section.title} - streaml1`;
      by("loss-title").textContent = section.loss_name[0].toUpperCase() + section.loss_name.slice(1);
      const explains = embedded === null && section.explains;
      by("explain-section").hidden = by("explain-key").hidden = !explains;
      by("stream-section").classList.toggle("full", !explains);
    },

    tiles(section) {
      by("tiles").replaceChildren(...TILES.map(([title, name, format]) => {
        const value = section[name], tile = make("div");
        const text = value === null || value === undefined ? "-" : format(value);
        tile.append(make("dt", title), make("dd", text));
        return tile;
      }));
      showHealth(section.status, section.health);
    },

    loss(section) {
      if (section.columns.x.length) {
        Charts.loss(by("loss"), section);
      }
      const counts = {};
      for (const { kind } of section.marks) {
        counts[kind] = (counts[kind] ?? 0) + 1;
      }
      by("marks").replaceChildren(...Object.entries(counts).map(([kind, n]) => make("li", n > 1 ? `${n} ${kind === "pass" ? "passes" : kind + "s"}` : kind, kind)));
    },

    nonzeros(section) {
      if (section.x.length) {
        Charts.nonzeros(by("nonzeros"), section);
      }
    },

    reliability(section) {
      by("reliability-section").hidden = !section.bins.length;
      if (section.bins.length) {
        Charts.reliability(by("reliability"), section);
        Charts.scores(by("scores"), section);
      }
    },

    weights(section) {
      by("weights-section").hidden = by("movers-section").hidden = section.n === 0;
      if (!by("search").value) {
        showWeights(section.top, `the ${section.top.length} largest of ${section.n.toLocaleString("en")}`);
      }
      fill("movers", section.movers.map((item) => row(
        nameCell(item.name, item.label),
        make("td", signed(item.before), "number"),
        make("td", "\u2192", "number"),
        make("td", signed(item.before + item.change), `number ${item.change > 0 ? "up" : "down"}`),
      )));
      by("movers-note").textContent = section.seconds === null ? "compares with the weights of a minute ago" : `compared with ${duration(section.seconds)} ago`;
      by("movers-section").hidden ||= !section.movers.length && !latest.run?.live;  // none will come
    },

    stream(section) {
      const lag = section.lag ?? [];
      by("lag-part").hidden = section.lag === null;
      fill("lag", lag.map(([partition, unread]) => row(make("td", `partition ${partition}`, "name"), make("td", unread.toLocaleString("en"), "number"))));
      const { total, reasons, last } = section.rejected;
      by("rejected-total").textContent = total.toLocaleString("en");
      fill("rejected", reasons.map(([reason, n]) => row(make("td", reason, "name"), make("td", n.toLocaleString("en"), "number"))));
      by("last-rejected").replaceChildren(...last.slice(0, 3).map((one) => make("li", `${one.place}: ${one.reason}`)));
      const figures = section.waiting === null ? section.figures : [["examples that wait for a label", section.waiting], ...section.figures];
      by("figures-part").hidden = !figures.length;
      by("stream-section").hidden = section.lag === null && !total && !figures.length;
      fill("figures", figures.map(([name, value]) => row(make("td", name.replace(/_total$/, "").replaceAll("_", " "), "name"), make("td", value.toLocaleString("en"), "number"))));
    },
  };

  function showWeights(items, note) {
    fill("weights", items.map((item) => {
      const curve = make("td");
      curve.append(sparkline(item.values ?? []));
      return row(nameCell(item.name, item.label), curve, make("td", signed(item.weight), "number"));
    }));
    by("weights-note").textContent = note;
  }

  function show(name, section) {
    latest[name] = section;
    SECTIONS[name]?.(section);
  }

  // Search

  let searched = 0;

  async function search() {
    const prefix = by("search").value, mine = ++searched;
    if (!prefix) {
      if (latest.weights) {
        show("weights", latest.weights);
      }
      return;
    }
    if (embedded !== null) {
      const found = latest.weights.top.filter((item) => item.name.startsWith(prefix));
      showWeights(found, `${found.length} of the largest weights`);
      return;
    }
    const answer = await ask(`weights?${new URLSearchParams({ prefix })}`);
    if (mine === searched) {
      showWeights(answer.weights ?? [], answer.error ?? `${answer.weights.length} found, the largest first`);
    }
  }

  async function ask(path, options) {
    try {
      const response = await fetch(path, options);
      const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
      return isJson ? await response.json() : { error: (await response.text()).trim() };
    } catch {
      return { error: "the run does not answer" };
    }
  }

  let typing;
  by("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search, 250);
  });

  // Explanations

  by("explain").addEventListener("submit", async (event) => {
    event.preventDefault();
    const answer = await ask("explain", { method: "POST", headers: { "Content-Type": "application/json" }, body: by("example").value });
    by("prediction").className = answer.error ? "error" : "";
    if (answer.error) {
      by("prediction").textContent = answer.error;
      fill("contributions", []);
      return;
    }
    const parts = [];
    if (answer.label !== undefined) {
      parts.push(`label ${answer.label}`);
    }
    if (answer.p !== undefined && answer.p !== null) {
      parts.push(`probability ${four(answer.p)}`);
    }
    if (answer.value !== undefined) {
      parts.push(`value ${four(answer.value)}`);
    }
    parts.push(`margin ${signed(answer.margin)}`, `intercept ${signed(answer.intercept)}`);
    by("prediction").textContent = parts.join(", ");
    fill("contributions", answer.features.map((item) => row(
      nameCell(item.name, item.known ? undefined : "(unknown)"),
      make("td", factors(item), "number"),
      make("td", signed(item.contribution), `number ${item.contribution > 0 ? "up" : item.contribution < 0 ? "down" : ""}`),
    )));
  });

  by("example").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      by("explain").requestSubmit();
    }
  });

  addEventListener("keydown", (event) => {
    const types = event.target.matches?.("input, textarea");
    if (event.key === "Escape" && types) {
      event.target.blur();
    } else if (event.key === "/" && !types) {
      by("search").focus();
      event.preventDefault();
    } else if (event.key === "e" && !types && !by("explain-section").hidden && !event.ctrlKey && !event.metaKey) {
      by("example").focus();
      event.preventDefault();
    } else if (!types && Charts.move(event.target, event.key)) {
      event.preventDefault();
    }
  });

  // Data

  by("reliability-section").hidden = true;
  if (embedded !== null) {
    for (const [name, section] of Object.entries(JSON.parse(embedded.textContent))) {
      show(name, section);
    }
    return;
  }

  const RETRY_MILLISECONDS = 2000;
  let wasLive = false, hasEnded = false;

  function connect() {
    const events = new EventSource("events");
    for (const name of Object.keys(SECTIONS)) {
      events.addEventListener(name, (event) => show(name, JSON.parse(event.data)));
    }
    events.addEventListener("open", () => {
      hasEnded = false;
      by("reliability-section").hidden = true;  // another run may have none
    });
    events.addEventListener("run", () => { wasLive ||= latest.run.live; });
    events.addEventListener("end", () => {
      hasEnded = true;
      events.close();
      if (wasLive) {  // the run may be restarted
        setTimeout(connect, RETRY_MILLISECONDS);
      }
    });
    events.addEventListener("error", () => {
      if (!hasEnded) {
        showHealth("gone", "the run does not answer: it has ended, or the connection is lost");
      }
      if (events.readyState === EventSource.CLOSED) {  // after an answer such as that of a proxy
        setTimeout(connect, RETRY_MILLISECONDS);
      }
    });
  }

  connect();
})();
