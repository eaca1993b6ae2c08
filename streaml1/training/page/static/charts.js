// The charts of the page. Data come as columns; uPlot draws them on a canvas.
"use strict";

const Charts = (() => {
  const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
  const made = new Map();  // element -> { plot, make, data }

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const short = (value) => (value === null || value === undefined ? "-" : COMPACT.format(value));
  const four = (value) => (value === null || value === undefined ? "-" : Number(value).toPrecision(4));

  function axis(format, extra) {
    return {
      size: 26, stroke: color("soft"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1, size: 4 },
      font: "11px system-ui, 'DejaVu Sans', sans-serif", gap: 3, values: (_, values) => values.map(format), ...extra,
    };
  }

  // The legend shows the values at the cursor, else the latest ones.
  function latest(format) {
    return (plot, value, series, index) => format(index === null || index === undefined ? plot.data[series].findLast((v) => v !== null) : value);
  }

  function line(label, name, extra) {
    return { label, stroke: color(name), width: 1.6, points: { show: false }, value: latest(four), ...extra };
  }

  function options(element, extra) {
    return {
      width: Math.max(80, element.clientWidth), height: element.clientHeight,
      cursor: { drag: { x: true, y: false } }, legend: { show: !element.classList.contains("small") }, padding: [6, 14, 0, 0], ...extra,
    };
  }

  const linear = { time: false };

  // Draws in front of the series, in canvas pixels, clipped to the plot.
  function drawn(draw) {
    return [(plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      draw(plot, ctx, bbox, devicePixelRatio);
      ctx.restore();
    }];
  }

  function triangle(ctx, x, y, size) {
    ctx.beginPath();
    ctx.moveTo(x - size, y);
    ctx.lineTo(x + size, y);
    ctx.lineTo(x, y - 1.6 * size);
    ctx.fill();
  }

  const MARKS = {
    checkpoint: (ctx, x, box, px) => { ctx.fillStyle = color("grey"); triangle(ctx, x, box.top + box.height, 3 * px); },
    publication: (ctx, x, box, px) => { ctx.fillStyle = color("green"); triangle(ctx, x, box.top, -3 * px); },
    restart: (ctx, x, box, px) => { ctx.fillStyle = color("red"); ctx.fillRect(x - px, box.top, 2 * px, box.height); },
    drift: (ctx, x, box, px) => { ctx.fillStyle = color("orange"); ctx.fillRect(x - px, box.top, 2 * px, box.height); },
    pass: (ctx, x, box, px) => { ctx.fillStyle = color("blue"); ctx.fillRect(x, box.top, px, box.height); },
  };

  function lossChart(element, state) {
    return new uPlot(options(element, {
      scales: { x: linear },
      axes: [axis(short), axis(four, { size: 58 })],
      series: [
        { label: "examples", value: latest(short) },
        line("recent", "orange", { width: 1 }),
        line("all", "blue", { width: 2.2 }),
        line("baseline", "grey", { dash: [5, 4] }),
      ],
      hooks: { draw: drawn((plot, ctx, box, px) => {
        for (const mark of state.marks) {
          MARKS[mark.kind]?.(ctx, plot.valToPos(mark.examples, "x", true), box, px);
        }
      }) },
    }), state.data, element);
  }

  function nonzerosChart(element, state) {
    const bars = uPlot.paths.bars({ size: [0.7, 30] });
    return new uPlot(options(element, {
      scales: { x: { time: false, range: (_, low, high) => [low - (high - low || low) * 0.02, high + (high - low || high) * 0.02] }, changes: { auto: true }, y: { range: (_, low, high) => [0, (high || 1) * 1.05] } },
      axes: [axis(short), axis(short, { size: 48 }), axis(short, { side: 1, scale: "changes", size: 48, grid: { show: false } })],
      series: [
        { label: "examples", value: latest(short) },
        { label: "added", scale: "changes", stroke: color("green"), fill: color("green") + "70", paths: bars, points: { show: false }, value: latest(short) },
        { label: "dropped", scale: "changes", stroke: color("red"), fill: color("red") + "70", paths: bars, points: { show: false }, value: latest((v) => (v === null || v === undefined ? "-" : short(Math.abs(v)))) },
        line("non-zero", "blue", { width: 2.2, value: latest(short) }),
      ],
    }), state.data, element);
  }

  function reliabilityChart(element, state) {
    const range = () => [0, state.max];
    return new uPlot(options(element, {
      scales: { x: { time: false, range }, y: { range } },
      axes: [axis((v) => String(v)), axis((v) => String(v), { size: 48 })],
      series: [
        { label: "prediction", value: latest(four) },
        line("observed rate", "blue", { points: { show: true, size: 6, fill: color("blue") } }),
      ],
      hooks: { draw: drawn((plot, ctx, box, px) => {
        const x = (v) => plot.valToPos(v, "x", true), y = (v) => plot.valToPos(v, "y", true);
        ctx.lineWidth = px;
        ctx.strokeStyle = color("grey");
        ctx.setLineDash([5 * px, 4 * px]);
        ctx.beginPath();
        ctx.moveTo(x(0), y(0));
        ctx.lineTo(x(state.max), y(state.max));
        ctx.stroke();
        ctx.setLineDash([]);
        ctx.strokeStyle = color("blue");
        for (const bin of state.bins) {
          const at = x(bin.mean_prediction), low = y(bin.rate - bin.standard_error), high = y(bin.rate + bin.standard_error);
          ctx.beginPath();
          ctx.moveTo(at, low);
          ctx.lineTo(at, high);
          for (const end of [low, high]) {
            ctx.moveTo(at - 4 * px, end);
            ctx.lineTo(at + 4 * px, end);
          }
          ctx.stroke();
        }
      }) },
    }), state.data, element);
  }

  function scoresChart(element, state) {
    return new uPlot(options(element, {
      scales: { x: { time: false, range: () => [0, state.max] }, y: { range: (_, low, high) => [0, high || 1] } },
      axes: [axis((v) => String(v)), axis(short, { size: 48, space: 20 })],
      series: [
        { label: "prediction" },
        { label: "examples", stroke: color("blue"), fill: color("blue") + "60", width: 1,
          paths: uPlot.paths.bars({ size: [1, 100] }), points: { show: false } },
      ],
    }), state.data, element);
  }

  // Draws a chart, or updates it if only its data have changed. Charts keep `state`, so that what
  // hooks draw follows the data.
  function show(element, make, state) {
    const old = made.get(element);
    if (old === undefined) {
      const plot = make(element, state);
      made.set(element, { make, state, plot });
      requestAnimationFrame(resize);  // once uPlot has laid the legend out
      return;
    }
    Object.assign(old.state, state);
    old.plot.setData(old.state.data);
  }

  function remake() {
    for (const [element, chart] of made) {
      chart.plot.destroy();
      chart.plot = chart.make(element, chart.state);
    }
    requestAnimationFrame(resize);
  }

  // Leaves room for the legend, which may have several lines.
  function fit(element, plot) {
    const legend = plot.root.querySelector(".u-legend")?.offsetHeight ?? 0;
    const width = Math.max(80, element.clientWidth), height = element.clientHeight - legend;
    if (plot.width !== width || plot.height !== height) {
      plot.setSize({ width, height });
    }
  }

  function resize() {
    const fitAll = () => made.forEach(({ plot }, element) => fit(element, plot));
    fitAll();
    requestAnimationFrame(fitAll);  // the new width may have changed the lines of the legend
  }

  // Arrow keys move the cursor of the chart that has the focus.
  function move(element, key) {
    const chart = made.get(element);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (chart === undefined || step === undefined) {
      return false;
    }
    const { plot } = chart, last = plot.data[0].length - 1;
    const at = plot.cursor.idx === null || plot.cursor.idx === undefined ? last - step : plot.cursor.idx;
    const index = Math.min(Math.max(at + step, 0), last);
    plot.setCursor({ left: plot.valToPos(plot.data[0][index], "x"), top: plot.over.clientHeight / 2 });
    return true;
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", remake);
  addEventListener("resize", resize);

  return {
    short, four, move,
    loss: (element, section) => {
      const { x, recent, loss, baseline } = section.columns;
      show(element, lossChart, { data: [x, recent, loss, baseline], marks: section.marks });
    },
    nonzeros: (element, section) => {
      const down = section.dropped.map((v) => (v === null ? null : -v));
      show(element, nonzerosChart, { data: [section.x, section.added, down, section.nonzero] });
    },
    reliability: (element, section) => {
      const bins = section.bins;
      const highest = Math.max(...bins.map((bin) => Math.max(bin.mean_prediction, bin.rate + bin.standard_error)));
      const data = [bins.map((bin) => bin.mean_prediction), bins.map((bin) => bin.rate)];
      show(element, reliabilityChart, { data, bins, max: Math.min(1, highest * 1.1) || 1 });
    },
    scores: (element, section) => {
      const { edges, counts } = section;
      const centres = counts.map((_, k) => (edges[k] + edges[k + 1]) / 2);
      show(element, scoresChart, { data: [centres, counts], max: Math.min(1, edges[edges.length - 1] * 1.05) || 1 });
    },
  };
})();
