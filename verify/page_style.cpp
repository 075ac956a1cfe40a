// The page's style. Wide things scroll in their own box (.wide); the tables of words become cards on a
// phone
// (.stack). The colours of text reach a contrast of 4.5 on their grounds, in the light and in the dark.
#include "page_parts.hpp"

namespace scape::verify::page {

const char* style() {
    return R"css(
:root {
  color-scheme: light dark;
  --ground: #f4f5f7; --card: #ffffff; --sunk: #f1f3f6; --text: #1a2230; --quiet: #556072; --line: #dce1e8;
  --link: #1d5aa8; --shadow: 0 1px 2px #1a223014, 0 4px 16px #1a22300a;
  --passed: #17663f; --passed-tint: #e3f3ea; --passed-bar: #3f9c6b;
  --failed: #ab231c; --failed-tint: #fce8e6; --failed-bar: #d3554d;
  --doubtful: #7b4e00; --doubtful-tint: #fcf0d4; --doubtful-bar: #c28a1f;
  --skipped: #556072; --skipped-tint: #eceff3; --skipped-bar: #9aa4b2;
  --plus: 33 102 180; --minus: 196 98 16; --bit: #2c4a73; --on-bit: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #10141a; --card: #181e26; --sunk: #1f2630; --text: #e3e8ef; --quiet: #9ba7b6; --line: #2c3541;
    --link: #86b8f5; --shadow: none;
    --passed: #74d3a0; --passed-tint: #14301f; --passed-bar: #3f9c6b;
    --failed: #ff9d94; --failed-tint: #3d1b19; --failed-bar: #d3554d;
    --doubtful: #f0c062; --doubtful-tint: #362810; --doubtful-bar: #c28a1f;
    --skipped: #9ba7b6; --skipped-tint: #232a34; --skipped-bar: #5d6a7a;
    --plus: 90 160 240; --minus: 240 150 70; --bit: #a9c8f2; --on-bit: #10141a;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.page { max-width: 76rem; margin: 0 auto; padding: 1.5rem; }
h1, h2, h3, h4, p, ul, dl, dd, pre, figure { margin: 0; padding: 0; }
ul { list-style: none; }
h2 { font-size: 1.35rem; line-height: 1.25; margin-bottom: .75rem; }
h3 { font-size: 1.05rem; line-height: 1.4; }
h4 { font-size: .8rem; font-weight: 600; color: var(--quiet); margin: 1.1rem 0 .35rem;
  text-transform: uppercase; letter-spacing: .04em; }
a { color: var(--link); text-underline-offset: .15em; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code, pre, .value, .bits, .number, .grid td, .numbers td, .near td {
  font-family: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code, .bits { font-size: .9em; unicode-bidi: isolate; overflow-wrap: anywhere; }
pre { background: var(--sunk); border: 1px solid var(--line); border-radius: .5rem; padding: .65rem .8rem;
  font-size: .85rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.quiet, figcaption { color: var(--quiet); font-weight: 400; font-size: .88rem; }
.number { font-variant-numeric: tabular-nums; font-size: .86rem; white-space: nowrap; }
.sr { position: absolute; width: 1px; height: 1px; padding: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

header, section, #made { background: var(--card); border: 1px solid var(--line); border-radius: .9rem;
  box-shadow: var(--shadow); padding: 1.5rem; margin-bottom: 1.25rem; }
header { border-top: .35rem solid var(--tone); }
.passed { --tone: var(--passed); --tint: var(--passed-tint); --bar: var(--passed-bar); }
.failed { --tone: var(--failed); --tint: var(--failed-tint); --bar: var(--failed-bar); }
.doubtful { --tone: var(--doubtful); --tint: var(--doubtful-tint); --bar: var(--doubtful-bar); }
.skipped { --tone: var(--skipped); --tint: var(--skipped-tint); --bar: var(--skipped-bar); }
.nothing { --tone: var(--quiet); --tint: transparent; }
.what { color: var(--quiet); font-size: .9rem; margin-bottom: .6rem; }
.verdict { display: flex; align-items: center; gap: 1rem; }
.verdict .sign { flex: none; width: 3.4rem; height: 3.4rem; border-radius: 50%; display: grid; place-items: center;
  background: var(--tint); color: var(--tone); font-size: 1.8rem; font-weight: 700; }
h1 { font-size: clamp(1.5rem, 1.1rem + 2vw, 2.3rem); line-height: 1.15; letter-spacing: -.015em; text-wrap: balance; }
.counts { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1.2rem 0 0; }
.counts li { background: var(--tint); color: var(--tone); border: 1px solid transparent; border-radius: 2rem;
  padding: .2rem .85rem; font-size: .92rem; }
.counts li.nothing { border-color: var(--line); }
.counts b { font-variant-numeric: tabular-nums; }
nav { border-top: 1px solid var(--line); margin-top: 1.2rem; padding-top: .8rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; font-size: .95rem; }

summary { cursor: pointer; padding: .3rem 0; }
#made { padding: .6rem 1.5rem; }
#made > summary, .case > summary, #rows summary { font-weight: 600; }
.run { padding: .5rem 0 .8rem; }
.run + .run { border-top: 1px solid var(--line); padding-top: 1rem; }
.environment { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 16rem), 1fr)); gap: .5rem 1.2rem;
  margin-top: .8rem; font-size: .9rem; }
dt { color: var(--quiet); font-size: .8rem; }
dd { overflow-wrap: anywhere; }

.badge { display: inline-block; background: var(--tint); color: var(--tone); border-radius: .4rem; padding: .05rem .5rem;
  font-size: .76rem; font-weight: 650; letter-spacing: .03em; white-space: nowrap; vertical-align: .1em; }
a:has(.badge) { text-decoration-color: var(--quiet); }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; padding-bottom: .5rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid var(--line); }
thead th { color: var(--quiet); font-size: .8rem; font-weight: 600; vertical-align: bottom; }
td.number, th.number { text-align: right; }
th.number { font-family: inherit; }
tbody th { font-weight: 600; overflow-wrap: anywhere; }
.says { display: block; color: var(--quiet); font-weight: 400; font-size: .86rem; }
.wide { overflow-x: auto; max-width: 100%; position: relative; }

.failure { border: 1px solid var(--line); border-left: .3rem solid var(--tone); border-radius: .6rem; padding: 1.1rem 1.3rem;
  margin-top: 1rem; scroll-margin-top: 1rem; min-width: 0; }
.failure:target { outline: 2px solid var(--tone); }
.failure h3 { overflow-wrap: anywhere; }
.message { margin-top: .6rem; overflow-wrap: anywhere; }
.failure > .message { font-size: 1.05rem; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 0 2.5rem; }
.beside > div { min-width: 0; }
.facts { display: flex; flex-wrap: wrap; gap: .4rem 1.6rem; }
.facts dd { font-weight: 600; }
.pair { display: grid; gap: .5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 11rem), 1fr)); margin: .8rem 0 .3rem; }
.pair > div { background: var(--passed-tint); border-radius: .5rem; padding: .45rem .75rem; min-width: 0; }
.pair > .actual { background: var(--failed-tint); }
.pair dt { color: var(--text); }
.pair .value { font-size: 1.05rem; font-weight: 600; overflow-wrap: anywhere; }
.pair .bits { display: block; }
mark { background: none; color: var(--failed); font-weight: 700; text-decoration: underline 2px; text-underline-offset: .15em; }
.near td, .near th, .numbers td, .numbers th { padding: .25rem .6rem; font-size: .84rem; white-space: nowrap; }
.near .bits { display: block; color: var(--quiet); }
.near th .sign { color: var(--passed); }
.near .bad th .sign { color: var(--failed); }
.near .bad > * { background: var(--failed-tint); }
.near .bad .bits { color: var(--text); }

.drawing { margin-top: 1.1rem; }
.drawing caption { white-space: nowrap; font-size: .8rem; font-weight: 600; color: var(--quiet); text-transform: uppercase; letter-spacing: .04em;
  padding-bottom: .35rem; }
.grid { table-layout: fixed; font-size: .75rem; border-collapse: separate; border-spacing: 0; }
.grid th, .grid td { padding: .2rem .3rem; border: 0; border-bottom: 1px solid var(--card); border-right: 1px solid var(--card); }
.grid tr > th:first-child { position: sticky; left: 0; background: var(--card); color: var(--quiet); font-weight: 400; z-index: 1; }
.grid thead th { font-size: 1em; }
.grid .group { background: var(--sunk); color: var(--text); text-align: left; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.grid .group span { display: block; overflow: hidden; text-overflow: ellipsis; }
.grid .coordinate { text-align: center; font-variant-numeric: tabular-nums; }
.grid .here { color: var(--failed); }
.grid .here::after { content: "▼"; display: block; line-height: 1; }
.grid .rank th:first-child { padding-top: .7rem; color: var(--text); font-weight: 650; font-size: 1.05em; }
.grid .rank th span { position: sticky; left: .3rem; }
.grid td { text-align: center; vertical-align: middle; line-height: 1.35; overflow: hidden; white-space: nowrap; }
.grid .on, .key.on { background: var(--bit); color: var(--on-bit); font-weight: 700; }
.grid .off { box-shadow: inset 0 0 0 1px var(--line); color: var(--quiet); }
.grid .zero { background: var(--sunk); color: var(--quiet); }
.grid .odd { background: var(--doubtful-tint); color: var(--doubtful); }
.grid .p1 { background: rgb(var(--plus) / .1); } .grid .p2 { background: rgb(var(--plus) / .2); }
.grid .p3, .key.p3 { background: rgb(var(--plus) / .3); } .grid .p4 { background: rgb(var(--plus) / .42); }
.grid .m1 { background: rgb(var(--minus) / .1); } .grid .m2 { background: rgb(var(--minus) / .2); }
.grid .m3, .key.m3 { background: rgb(var(--minus) / .3); } .grid .m4 { background: rgb(var(--minus) / .42); }
.grid .tensor-edge { border-left: 2px solid var(--quiet); }
.grid .owner-edge { border-left: 2px solid var(--text); }
.grid .wrong, .key.wrong { outline: 2px solid var(--failed-bar); outline-offset: -2px; }
.grid small, .numbers small { display: block; font-size: 1em; color: inherit; }
.grid .wrong small, .grid .wrong b { font-weight: 700; }
.grid.dense td { padding: .1rem 0; }
.grid.dense .coordinate { padding: .1rem 0; font-size: .7rem; }
.numbers .wrong { color: var(--failed); font-weight: 650; }
.numbers { width: auto; }
figcaption { margin-top: .55rem; display: flex; flex-wrap: wrap; gap: .15rem 1.3rem; }
.key { display: inline-block; min-width: 1.5em; text-align: center; border-radius: .2rem; color: var(--text); font-size: .9em; }
.trace { margin-top: .7rem; }
.drawing + details { font-size: .9rem; margin-top: .3rem; }

.maps { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.5rem 2rem; margin-top: 1.1rem; }
.map { min-width: 0; }
.heat-map { border-collapse: separate; border-spacing: 3px; table-layout: fixed; min-width: 20rem; }
.heat-map th, .heat-map td { border: 0; border-radius: .35rem; padding: .3rem .4rem; }
.heat-map .corner { width: 4.6rem; font-weight: 400; font-size: .74rem; }
.heat-map thead th { text-align: center; }
.heat-map thead .corner { text-align: left; }
.heat-map tbody th { vertical-align: middle; text-align: right; font-variant-numeric: tabular-nums; }
.heat { background: var(--tint); color: var(--tone); text-align: center; font-variant-numeric: tabular-nums; line-height: 1.3; }
.heat a { color: inherit; display: block; }
.heat .tally { display: block; font-weight: 650; font-size: .86rem; white-space: nowrap; }
.heat .share { display: block; font-size: .76rem; white-space: nowrap; }
.heat.failed, .heat.doubtful { box-shadow: inset 0 0 0 2px var(--bar); }
.none { background: var(--sunk); }
.bar { display: block; height: 3px; border-radius: 2px; margin-top: .2rem; background: rgb(128 128 128 / .2); overflow: hidden; }
.bar span { display: block; height: 100%; background: var(--bar, var(--skipped-bar)); }

.stack + .stack { margin-top: 2rem; }
.stack caption b { font-size: 1.02rem; }
.stack { font-size: .94rem; }
.stack th, .stack td { padding: .45rem .5rem; }
.stack thead th:nth-child(n+2) { padding-left: .5rem; }
.stack tbody th a { color: inherit; text-decoration: underline 1px var(--skipped-bar); }
.stack td summary { padding: 0; }
.lead { max-width: 52rem; text-wrap: pretty; margin-bottom: .9rem; }
.says, .sum { max-width: 40rem; }
.chips { display: flex; flex-wrap: wrap; gap: .25rem .35rem; }
.chips li { background: var(--sunk); border-radius: .4rem; padding: 0 .45rem; font-size: .82rem; }
.chips b { font-weight: 650; white-space: nowrap; }
#planted .stack caption { position: absolute; width: 1px; height: 1px; padding: 0; overflow: hidden; clip-path: inset(50%); }
.sum { font-size: 1.15rem; }
.cases { margin-top: 1.2rem; }
.cases > summary { font-weight: 600; }
.case { border-top: 1px solid var(--line); padding: .25rem 0; }
.case > summary { padding-left: .8rem; }
.case > div { padding: 0 .8rem 1.1rem; scroll-margin-top: 4rem; }
.slowest th { font-weight: 400; }
.slowest td { width: 7rem; }
#rows details { border-top: 1px solid var(--line); padding: .3rem 0; }
.rows td, .rows th { padding: .3rem .6rem; font-size: .86rem; white-space: nowrap; }
.rows .says { white-space: normal; min-width: 14rem; }

@media (max-width: 46rem) {
  .page { padding: .75rem; }
  header, section { padding: 1.1rem 1rem; }
  #made { padding: .5rem 1rem; }
  .failure { padding: .9rem; }
  .verdict { gap: .75rem; }
  .verdict .sign { width: 2.6rem; height: 2.6rem; font-size: 1.35rem; }
  .stack, .stack tbody, .stack tr, .stack th, .stack td { display: block; }
  .stack caption { display: block; }
  .stack thead { position: absolute; padding: 0; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .stack tr { display: flex; flex-wrap: wrap; gap: .2rem .9rem; padding: .75rem 0; border-bottom: 1px solid var(--line); }
  .stack td, .stack tbody th { border: 0; padding: 0; min-width: 0; }
  .stack tbody th { flex-basis: 100%; }
  .stack td.number { text-align: left; }
  .stack td:not(.status)::before { content: attr(data-label) " "; color: var(--quiet); font-size: .8rem;
    font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
  .stack td.words { flex-basis: 100%; order: 1; }
  .stack .words .chips { display: inline-flex; vertical-align: top; }
  .stack .words details { display: inline-block; vertical-align: top; }
  .slowest td { width: 4.5rem; }
  .near td, .near th { padding: .25rem .35rem; font-size: .78rem; }
  .heat-map { border-spacing: 2px; }
  .heat-map th, .heat-map td { padding: .3rem .1rem; }
  .heat-map .corner { width: 3.9rem; }
}
@media print {
  body { background: none; } header, section, #made { box-shadow: none; break-inside: auto; } nav { display: none; }
}
)css";
}

} // namespace scape::verify::page
