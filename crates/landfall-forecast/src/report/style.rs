//! Style sheets. Colours are those of Okabe and Ito, which people with any kind of colour blindness can tell apart.

/// Colours in light and dark, and the marks of charts: enough for a picture that stands on its own.
pub(super) const CHART: &str = "\
svg{--page:#fff;--ink:#1b1f24;--soft:#5b6570;--line:#dfe3e8;--past:#8a94a0;--forecast:#0072b2;--last:#c77700;--seasonal:#00875f;--mark:#c2410c}
@media(prefers-color-scheme:dark){svg{--page:#0f1419;--ink:#e8ecf1;--soft:#a3adb8;--line:#2c343d;--past:#8a94a0;--forecast:#56b4e9;--last:#e69f00;--seasonal:#2fc795;--mark:#ff8a5c}}
.chart{font:12px system-ui,-apple-system,'Segoe UI',sans-serif}
.chart text{fill:var(--ink)}.chart .soft{fill:var(--soft)}.chart .end{text-anchor:end}.chart .mid{text-anchor:middle}
.grid{stroke:var(--line);fill:none}.axis{stroke:var(--soft);fill:none}
.line{fill:none;stroke-width:1.5;stroke-linejoin:round}
.past{stroke:var(--past)}.actual{stroke:var(--ink);stroke-width:2}.forecast{stroke:var(--forecast);stroke-width:2.5}
.last{stroke:var(--last);stroke-width:1.2;stroke-dasharray:5 3}.seasonal{stroke:var(--seasonal);stroke-width:1.2;stroke-dasharray:2 2}
.valid{stroke:var(--mark);stroke-width:2}
.band{fill:var(--forecast);fill-opacity:.18}.band.inner{fill-opacity:.42}.mark{stroke:var(--mark);stroke-dasharray:3 3;fill:none}
.dot,.bar{stroke:none}.dot.past,.bar.past{fill:var(--past)}.dot.actual{fill:var(--ink)}.dot.forecast,.bar.forecast{fill:var(--forecast)}
.dot.last,.bar.last{fill:var(--last)}.dot.seasonal,.bar.seasonal{fill:var(--seasonal)}.dot.valid{fill:var(--mark)}
";

/// The page around the charts.
pub(super) const PAGE: &str = "\
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1b1f24;--soft:#5b6570;--line:#dfe3e8;--warn:#fff3e0;--edge:#c77700}
@media(prefers-color-scheme:dark){:root{--page:#0f1419;--card:#171d24;--ink:#e8ecf1;--soft:#a3adb8;--line:#2c343d;--warn:#33260f;--edge:#e69f00}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}
main{max-width:1360px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:40px 0 8px}
h3{font-size:1rem;margin:20px 0 8px;overflow-wrap:anywhere}
p{margin:6px 0;max-width:75ch;overflow-wrap:anywhere}
.soft{color:var(--soft)}
.warn{background:var(--warn);border-left:4px solid var(--edge);padding:10px 14px;margin:14px 0;border-radius:4px}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:14px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px}
figcaption{font-weight:600;font-size:.92rem;margin-bottom:6px;overflow-wrap:anywhere}
figcaption span{font-weight:400;color:var(--soft)}
figure svg{display:block;width:100%;height:auto}
figure.wide{margin:14px 0}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));gap:8px 24px;margin:16px 0}
.facts div{border-top:1px solid var(--line);padding-top:6px}
dl.facts dt{color:var(--soft);font-size:.85rem}dl.facts dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px;margin:10px 0;max-width:max-content}
@media(max-width:600px){.scroll{max-width:100%}}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:6px 14px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:9rem}
tr:last-child td{border-bottom:0}thead th{color:var(--soft);font-weight:600}
tr.own td{font-weight:700}
";
