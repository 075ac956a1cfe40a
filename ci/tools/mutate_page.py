"""The page of ci/mutate: how many mutants died of what, and the lines that live unguarded."""

from tools.page import badge, framed, section, text

CLASS = {"killed by the gate": "passed", "timed out": "passed", "killed by unit tests only": "doubtful", "survived": "failed",
         "equivalent": "skipped", "does not build": "skipped", "not compiled here": "skipped"}
STYLE = """
.unguarded + .unguarded { margin-top: 1.6rem; }
.unguarded h3 { overflow-wrap: anywhere; margin-bottom: .4rem; }
.line { border-top: 1px solid var(--line); padding: .5rem 0; }
.line pre { margin: .3rem 0; }
.line li { padding: .1rem 0; overflow-wrap: anywhere; }
"""


def percent(share):
    return "none" if share is None else f"{100 * share:.1f} %"


def by_file(rows):
    files = {}
    for row in rows:
        files.setdefault(row["file"], []).append(row)
    return files


def table(rows):
    states = list(CLASS)
    head = "".join(f'<th scope="col" class="number">{state}</th>' for state in states)
    lines = ""
    for file, here in by_file(rows).items():
        cells = "".join(f'<td class="number" data-label="{state}">{sum(row["state"] == state for row in here)}</td>' for state in states)
        lines += f'<tr><th scope="row">{text(file)}</th>{cells}</tr>'
    return f'<table class="stack"><thead><tr><th scope="col">file</th>{head}</tr></thead><tbody>{lines}</tbody></table>'


def mutant(row):
    why = f' <span class="quiet">{text(row["by"])}</span>' if row["by"] else ""
    return (f'<li>{badge(row["state"], CLASS[row["state"]])} column {row["column"]}, {text(row["operator"])}: <code>{text(row["was"])}</code> → '
            f'<code>{text(row["now"] or "nothing")}</code>{why}</li>')


def lines_of(rows):
    parts = ""
    for file, here in by_file(rows).items():
        lines = {}
        for row in here:
            lines.setdefault(row["line"], []).append(row)
        parts += f'<div class="unguarded"><h3>{text(file)}</h3>' + "".join(
            f'<div class="line"><span class="quiet">line {line}</span><pre>{text(group[0]["text"])}</pre><ul>'
            + "".join(map(mutant, group)) + "</ul></div>" for line, group in lines.items()) + "</div>"
    return parts


def page(document):
    rows, sums = document["mutants"], document["totals"]
    alive = [row for row in rows if row["state"] == "survived"]
    escaped = [row for row in rows if row["state"] == "killed by unit tests only"]
    rest = [row for row in rows if row not in alive and row not in escaped]
    status = "failed" if alive else "doubtful" if escaped else "passed"
    title = f"The gate kills {percent(sums['gate'])} of {sums['counted']} mutants, and {len(alive) or 'none'} {'live' if len(alive) > 1 else 'lives'}"
    counts = "".join(f'<li class="{CLASS[state] if sums[state] else "nothing"}"><b>{sums[state]}</b> {state}</li>' for state in CLASS)
    lead = (f"Seed {document['seed']}: {len(rows)} of {document['mutants_in_all']} mutants were judged in {document['seconds'] / 60:.1f} "
            f"minutes ({document['cpu_seconds'] / 60:.1f} of processors). Of those that build and are not equivalent the gate kills "
            f"{percent(sums['gate'])}, and with the unit tests {percent(sums['gate and unit tests'])} die.")
    parts = section("files", "By file", f'<p class="lead">{lead}</p>' + table(rows))
    for identity, heading, some in (("survived", "Lines that live unguarded", alive),
                                    ("escaped", "What the gate does not see, but unit tests do", escaped)):
        if some:
            parts += section(identity, heading, lines_of(some))
    if rest:
        parts += section("others", "All others", f"<details><summary>{len(rest)} mutants</summary>{lines_of(rest)}</details>")
    return framed("ci/mutate", status, title, f'<h1>{text(title)}</h1><ul class="counts">{counts}</ul>', parts, STYLE)
