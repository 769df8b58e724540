// Charts of the last five minutes, by uPlot. Colours are those of the theme.
import uPlot from "/static/uplot/uPlot.esm.js";

const KEPT = 300;
const COLOURS = ["--data", "--warn", "--vote"];

export function chart(place, names, points) {
  let data = [];
  let plot = null;

  const columns = () => [points.map((p) => p[0]), ...names.map((_, i) => points.map((p) => p[i + 1]))];
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function draw() {
    plot?.destroy();
    const axis = { stroke: style("--quiet"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line"), width: 1 }, font: "11px system-ui" };
    data = columns();
    plot = new uPlot({
      width: Math.max(200, place.clientWidth), height: 160, cursor: { y: false }, legend: { live: true },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 1) * 1.1)] } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toLocaleTimeString("en-GB")) , space: 80, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300] }, { ...axis, size: 66, values: (_, ticks) => ticks.map((t) => t.toLocaleString("en-GB")) }],
      series: [{ label: "time", value: (_, t) => (t ? new Date(t * 1000).toLocaleTimeString("en-GB") : "–") }, ...names.map((label, i) => ({ label, stroke: style(COLOURS[i]), width: 1.6, points: { show: false } }))],
    }, data, place);
  }

  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => plot.setSize({ width: Math.max(200, place.clientWidth), height: 160 }), 150); });
  document.addEventListener("theme", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  return {
    add(point) {
      if (points.length && points.at(-1)[0] >= point[0]) return;
      points.push(point);
      if (points.length > KEPT) points.shift();
      plot.setData(columns());
    },
  };
}
