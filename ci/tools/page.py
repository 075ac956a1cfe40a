"""The frame of the pages of ci/mutate and ci/track: one file without scripts, in the style of the gate's report."""

import html
import pathlib

STYLE = pathlib.Path(__file__).resolve().parent.parent.parent / "verify/report/page_style.css"
COLOURS = {"passed": ("1a7546", "M4 8.5l3 3 5-6"), "failed": ("b3261e", "M5 5l6 6M11 5l-6 6")}


def text(value):
    return html.escape(str(value), quote=True)


def badge(word, status):
    return f'<span class="badge {status}">{text(word.upper())}</span>'


def section(identity, heading, content):
    identity = "".join(letter if letter.isalnum() else "-" for letter in identity)
    return f'<section id="{identity}" aria-labelledby="{identity}-heading"><h2 id="{identity}-heading">{heading}</h2>{content}</section>\n'


def icon(status):
    if status not in COLOURS:
        return "data:,"
    colour, path = COLOURS[status]
    return ("data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='8' "
            f"fill='%23{colour}'/%3E%3Cpath d='{path}' fill='none' stroke='white' stroke-width='2'/%3E%3C/svg%3E")


def framed(program, status, title, head, parts, style):
    """`head` is the page's top with the title; `style` follows the report's."""
    return ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="color-scheme" content="light dark">\n<title>{text(title)} – truestep</title>\n'
            f'<link rel="icon" href="{icon(status)}">\n<style>\n{STYLE.read_text(encoding="utf-8")}{style}</style>\n</head>\n<body>\n'
            f'<div class="page">\n<header class="{status}"><p class="what">truestep: what {program} has found</p>{head}</header>\n'
            f"<main>\n{parts}</main>\n</div>\n</body>\n</html>\n")
