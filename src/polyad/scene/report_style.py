"""The look of the report: light and dark, from telephone to desk."""

STYLE = """
:root {
  --page: #f6f7f8; --card: #ffffff; --ink: #1d2330; --soft: #5c6675; --line: #e2e6ea;
  --accent: #2f6ea5; --accent-rgb: 47, 110, 165; --bar: rgba(47, 110, 165, .16);
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #14181d; --card: #1d232a; --ink: #e8ecf0; --soft: #a3adb9; --line: #323a44;
    --accent: #7db8e8; --accent-rgb: 74, 144, 200; --bar: rgba(125, 184, 232, .22);
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 1060px; margin: 0 auto; padding: 2rem 1rem 4rem; }
header { margin: 0 .25rem 1.5rem; }
header p { max-width: 46rem; font-size: 1.06rem; color: var(--soft); margin: .5rem 0 0; }
h1 { font-size: clamp(1.6rem, 4.5vw, 2.3rem); line-height: 1.2; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; margin: 0 0 .5rem; }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.25rem; margin: 0 0 1.25rem;
}
.note { color: var(--soft); font-size: .93rem; margin: 0 0 1rem; max-width: 52rem; }
.note em { font-style: normal; font-weight: 600; color: var(--ink); }
dl { margin: 0; } dd { margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 1rem; }
.tiles div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
.tiles dt { color: var(--soft); font-size: .88rem; line-height: 1.3; }
.tiles dd { font-size: 1.75rem; font-weight: 650; line-height: 1.3; white-space: nowrap; }
.tiles div:first-child dd { color: var(--accent); }
.tiles + .note { margin: 1rem 0 0; }
.gallery { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem; }
figure { margin: 0; }
figcaption { font-weight: 600; font-size: .95rem; margin: 0 0 .4rem; }
img { display: block; max-width: 100%; height: auto; }
.gallery img { width: 100%; border-radius: 4px; border: 1px solid var(--line); }
img.pixels { image-rendering: pixelated; }
.legend {
  list-style: none; margin: 1rem 0 0; padding: 0; font-size: .88rem;
  display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: .2rem 1rem;
}
.chip {
  display: inline-block; width: .95em; height: .95em; border-radius: 3px; margin-right: .55em;
  vertical-align: -.1em; border: 1px solid rgba(128, 128, 128, .5);
}
.facts {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: .8rem 1.5rem;
}
.facts .wide { grid-column: 1 / -1; }
.facts dt { color: var(--soft); font-size: .85rem; }
.facts dd { overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th { font-weight: 500; text-align: left; }
thead th { color: var(--soft); font-size: .85rem; }
.classes { width: 100%; }
.classes th, .classes td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
.classes td, .classes thead th:not(:first-child) { text-align: right; white-space: nowrap; }
.bar {
  width: 17%;
  background: linear-gradient(var(--bar), var(--bar)) .4rem 50% /
    calc((100% - .8rem) * var(--share)) 70% no-repeat;
}
.confusion th[scope=row] { white-space: nowrap; padding-right: .6rem; }
.confusion small { float: right; color: var(--soft); padding-left: .9rem; line-height: inherit; }
.confusion thead th:not(:first-child) { text-align: center; }
.confusion td {
  min-width: 2.45rem; height: 1.8rem; text-align: center; font-size: .8rem; padding: 0 .2rem;
  border: 1px solid var(--line); background: rgba(var(--accent-rgb), calc(var(--share, 0) * .95));
}
.confusion td.dark { color: #fff; }
.chart { min-width: 620px; }
.chart img { margin: 0 auto; }
.chart.narrow { min-width: 0; }
.paper { background: #fff; border-radius: 6px; padding: .5rem; }
.narrow img { width: 460px; }
pre {
  margin: 0 0 .8rem; padding: .9rem 1rem; overflow-x: auto; border-radius: 8px; font-size: .95rem;
  background: var(--page); border: 1px solid var(--line);
}
@media (max-width: 640px) {
  main { padding: 1.25rem .6rem 3rem; }
  section { padding: 1rem .8rem; }
  .tiles { grid-template-columns: 1fr 1fr; }
  .legend { grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
  .classes th, .classes td { padding: .3rem .15rem; font-size: .8rem; line-height: 1.3; }
  .classes td { padding-left: .35rem; }
  .bar { width: auto; background-position: .2rem 50%; }
  /* the names stay in sight while the numbers scroll */
  .scroll th[scope=row], .scroll thead th:first-child {
    position: sticky; left: 0; background: var(--card);
  }
  .confusion th[scope=row] { min-width: 8.5rem; white-space: normal; line-height: 1.25; }
  .confusion small { padding-left: .4rem; }
}
@media print { body { background: #fff; } section { break-inside: avoid; border: 0; } }
"""
