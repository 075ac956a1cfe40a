"""The page of ci/track: the last comparison, and each row's development over the history."""

from tools.page import badge, framed, section, text

WIDTH, HEIGHT, EDGE = 320, 110, 12
SIGNS = {"passed": "✓", "failed": "✗"}
CLASS = {"same": "passed", "faster": "passed", "slower": "failed", "new": "skipped", "gone": "skipped"}

STYLE = """
.curves + h3 { margin-top: 1.5rem; }
.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); gap: 1.2rem 1.5rem; margin-top: 1rem; }
.curve { min-width: 0; }
.curve h4 { text-transform: none; letter-spacing: 0; overflow-wrap: anywhere; margin-top: 0; }
.curve svg { display: block; width: 100%; height: auto; color: var(--link); background: var(--sunk); border-radius: .5rem; }
.curve polyline { fill: none; stroke: currentColor; stroke-width: 2; }
.curve circle { fill: currentColor; }
.curve line { stroke: var(--quiet); stroke-opacity: .35; }
.curve figcaption { justify-content: space-between; }
"""


def percent(share):
    return f"{share * 100:.3g} %"


# --- the last comparison

def verdict(document):
    slower = sum(row["verdict"] == "slower" for row in document["rows"])
    if slower:
        return "failed", f"{slower} of {len(document['rows'])} rows {'has' if slower == 1 else 'have'} become slower"
    return "passed", f"None of {len(document['rows'])} rows has become slower"


def comparison_row(row):
    figures = ["", "", "", ""]
    if "ratio" in row:
        figures = [f"{row['ratio']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}", f"{row['p']:.2g}",
                   f"{row['p_corrected']:.2g}"]
    share = f"{percent(row['share'])} of the {row['of']}" if "share" in row else ""
    labels = ("ratio", "95 % interval", "p", "p, Holm", "speed")
    cells = "".join(f'<td class="number" data-label="{label}">{text(value)}</td>' if value else "<td></td>"
                    for label, value in zip(labels, [*figures, share]))
    return f'<tr><th scope="row">{text(row["name"])}</th><td class="status">{badge(row["verdict"], CLASS[row["verdict"]])}</td>{cells}</tr>'


def comparison(document):
    head = "".join(f'<th scope="col"{kind}>{name}</th>' for name, kind in (
        ("row", ""), ("verdict", ""), ("ratio", ' class="number"'), ("95 % interval", ' class="number"'), ("p", ' class="number"'),
        ("p, Holm", ' class="number"'), ("speed", ' class="number"')))
    lead = ("The ratio is that of the median times of the runs, working tree over base: above 1 is slower. A row has become slower if the "
            "whole interval lies above 1.05 and p, corrected for the number of rows, is below 0.05.")
    return section("comparison", "The last comparison",
                   f'<p class="lead">{lead}</p><table class="stack"><thead><tr>{head}</tr></thead><tbody>'
                   + "".join(map(comparison_row, document["rows"])) + "</tbody></table>")


# --- the history

def curve(name, points):
    """`points` are pairs of a commit and a share. The line at the bottom is 0."""
    most = max(share for _, share in points) * 1.1
    step = (WIDTH - 2 * EDGE) / max(1, len(points) - 1)
    places = [(EDGE + i * step, HEIGHT - EDGE - share / most * (HEIGHT - 2 * EDGE)) for i, (_, share) in enumerate(points)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{text(commit)}: {percent(share)}</title></circle>'
                    for (x, y), (commit, share) in zip(places, points))
    first, last = points[0], points[-1]
    label = f"{name}: from {percent(first[1])} at {first[0]} to {percent(last[1])} at {last[0]}"
    return (f'<figure class="curve"><h4>{text(name)}</h4>'
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(label)}">'
            f'<line x1="0" y1="{HEIGHT - EDGE}" x2="{WIDTH}" y2="{HEIGHT - EDGE}"/><polyline points="{line}"/>{marks}</svg>'
            f'<figcaption><span>{text(first[0])}: {percent(first[1])}</span><span>{text(last[0])}: {percent(last[1])}</span>'
            "</figcaption></figure>")


def history(kind, lines):
    curves = {}
    for line in lines:
        for name, row in line["rows"].items():
            curves.setdefault((name, row["of"]), []).append((line["commit"], row["share"]))
    what = lines[-1]["machine"]
    lead = (f"{what['processor']}, {what['cores']} cores, {what['compiler']}; {len(lines)} runs, from {lines[0]['date'][:10]} to "
            f"{lines[-1]['date'][:10]}. Higher is faster: the share of the speed of what bounds the row, measured in the same process.")
    titles = {"floor": "Beside their floors", "copy": "Beside a plain copy", "limit": "Beside the least bytes of a step"}
    parts = [f'<h3>{titles[of]}</h3><div class="curves">'
             + "".join(curve(name, points) for (name, other), points in curves.items() if other == of) + "</div>"
             for of in titles if any(other == of for _, other in curves)]
    return section(f"history-{kind}", f"History: {text(what['processor'])}", f'<p class="lead">{text(lead)}</p>' + "".join(parts))


# --- the page

def environment(document):
    facts = {"commit": document["commit"], "base": document["base"], "date": document["date"], "rounds": document["rounds"],
             **document["machine"]}
    return ('<dl class="environment">' + "".join(f"<div><dt>{text(key)}</dt><dd>{text(value)}</dd></div>"
                                                 for key, value in facts.items() if value != "") + "</dl>")


def page(document, histories):
    """`document` is track.json or None; `histories` the lines of each kind of machine."""
    status, title = verdict(document) if document else ("passed", "The tracked benchmarks over time")
    parts = ""
    if document:
        parts += section("compared", "What was compared", environment(document)) + comparison(document)
    for kind, lines in histories.items():
        if lines:
            parts += history(kind, lines)
    head = f'<div class="verdict"><span class="sign" aria-hidden="true">{SIGNS[status]}</span><h1>{text(title)}</h1></div>'
    return framed("ci/track", status, title, head, parts, STYLE)
