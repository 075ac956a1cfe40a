"""The mistakes that ci/mutate makes: where in a C++ source each of them fits, and what it puts there.

Works on tokens. That is enough here because the tree is formatted (ci/format --check): an operator of two operands has a
space on either side and a bracket of a template has none, so `a < b` and `vector<b>` cannot be taken for each other.
Every mutant keeps the number of lines, so that all others keep their places.
"""

import bisect
import collections
import fnmatch
import re

from tools import mutate_source

Mutant = collections.namedtuple("Mutant", "file line column operator number alike text was now edits")
Mutant.__doc__ = """`number`: the how-manieth of this operator on the line, from 1. `alike`: the how-manieth such mutant on
lines with the same text, from 1. `text`: the line, stripped. `edits`: (begin, end, replacement) in the source, from the front."""
Mutant.name = property(lambda self: f"{self.file}:{self.line}:{self.column}:{self.operator}")

BINARY = {
    "boundary": {"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    "equality": {"==": "!=", "!=": "=="},
    "logic": {"&&": "||", "||": "&&"},
    "arithmetic": {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "%=": "/="},
    "bits": {"&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<", "&=": "|=", "|=": "&=", "^=": "|=", "<<=": ">>=", ">>=": "<<="},
}
UNARY = {"-": "sign", "~": "bits", "!": "negation"}
NAMES = {"extreme": {"min": "max", "max": "min", "least": "greatest", "greatest": "least"},
         "constant": {"true": "false", "false": "true"},
         "wait": {"notify_all": "notify_one"}}
WAITS = re.compile(r"\b(wait\w*|join\w*|barrier|finish\w*|hand_over|synchroni\w*|fsync|flush|notify_\w+|lock\w*|lock_guard|scoped_lock)\b")
OPERATORS = {
    "boundary": "< and <=, > and >= exchanged",
    "equality": "== and != exchanged",
    "logic": "&& and || exchanged",
    "arithmetic": "+ and -, * and / exchanged, alone or with =; % becomes /; ++ and -- exchanged",
    "bits": "& and |, << and >> exchanged, alone or with =; ^ becomes |; ~ taken away",
    "sign": "a minus before an operand taken away",
    "negation": "! taken away",
    "condition": "the condition of an if or a while negated",
    "choice": "the two values of ?: exchanged",
    "extreme": "min and max, least and greatest exchanged",
    "constant": "true and false exchanged; a floating-point 0 becomes 1, and every other one 0",
    "constant+1": "an integer one larger",
    "constant-1": "an integer one smaller, where it is not 0",
    "arguments": "two neighbouring arguments of a call, or values of a list, exchanged",
    "drop": "a statement taken away: a call, an assignment, a return or throw under an if",
    "wait": "a statement that waits, locks, wakes or finishes taken away; notify_all becomes notify_one",
    "barrier": "two phases of a block become one: no barrier between them",
    "break": "break in place of a loop's body",
    "once": "a loop that ends after its first turn",
    "jump": "break and continue exchanged",
}

SAID = {"break": "break in place of the body", "once": "one turn only", "barrier": "no barrier before this phase"}


class Source(mutate_source.Source):
    """Finds where operators apply."""

    def mutants(self):
        """All mutants by place, the same at every call."""
        found = []
        for make in (self.operators, self.constants, self.arguments, self.conditions, self.choices, self.dropped, self.loops, self.barriers):
            for operator, at, edits in make():
                found.append((self.tokens[at].begin, operator, edits))
        seen, numbers, result = set(), collections.Counter(), []
        for at, operator, edits in sorted(found):
            line = bisect.bisect_right(self.line_begins, at)
            begin = self.line_begins[line - 1]
            if (at, operator) in seen:
                continue
            seen.add((at, operator))
            numbers[line, operator] += 1
            edits = sorted(edits)
            changed = apply(self.content, edits)
            was, now = self.content[edits[0][0]:edits[-1][1]], changed[edits[0][0]:len(changed) - len(self.content) + edits[-1][1]]
            edits[-1] = (*edits[-1][:2], edits[-1][2] + "\n" * (was.count("\n") - now.count("\n")))
            if operator in SAID:
                was, now = self.content[begin:].split("\n", 1)[0], SAID[operator]
            text, number = self.content[begin:].split("\n", 1)[0].strip(), numbers[line, operator]
            numbers[text, operator, number] += 1
            result.append(Mutant(self.file, line, at - begin + 1, operator, number, numbers[text, operator, number], text, short(was), short(now),
                                 tuple(edits)))
        return result

    def edit(self, i, text, last=None):
        return (self.tokens[i].begin, self.tokens[i if last is None else last].end, text)

    def operators(self):
        alone = {(s.head + 1, self.partner[s.head] - 1) for s in self.statements if s.kind in ("if", "while")}
        for i, token in enumerate(self.tokens):
            if self.quiet[i] or i == 0:
                continue
            beside = (self.tokens[i - 1], self.tokens[i + 1] if i + 1 < len(self.tokens) else token)
            if token.kind == "name":
                for operator, names in NAMES.items():
                    if token.text in names:
                        yield operator, i, [self.edit(i, names[token.text])]
            elif token.kind == "sign" and self.spaced(i):
                for operator, signs in BINARY.items():
                    if token.text not in signs or any(other.kind == "text" or other.text in ("to_string", "string") for other in beside):
                        continue
                    if operator == "equality" and (i - 1, i + 1) in alone:
                        continue  # the whole condition is negated by its own operator
                    if self.loop_headers[i] and token.text in ("+=", "-=", "<<=", ">>="):
                        continue  # a loop that never ends tells nothing
                    if beside[0].text == "operator":
                        continue
                    yield operator, i, [self.edit(i, signs[token.text])]
            elif token.text in UNARY and not self.content[token.end].isspace() and \
                    (self.content[token.begin - 1].isspace() or beside[0].text in ("(", "[", "{", "!", "~")):
                if token.text == "~" and beside[1].text[:1].isupper():
                    continue  # a destructor
                if token.text == "!" and i - 1 >= 0 and self.text(i - 2) in ("if", "while") and self.partner.get(i - 1) and \
                        not any(self.text(j) in ("&&", "||") for j in range(i, self.partner[i - 1])):
                    continue  # the condition's own operator does the same
                yield UNARY[token.text], i, [self.edit(i, "")]
            elif token.text in ("++", "--") and not self.loop_headers[i] and self.in_code[i]:
                yield "arithmetic", i, [self.edit(i, {"++": "--", "--": "++"}[token.text])]

    def constants(self):
        for i, token in enumerate(self.tokens):
            if token.kind != "number" or self.quiet[i]:
                continue
            if token.text == "0" and self.text(i - 1) == "=" and self.text(i - 2) in (")", "const", "noexcept", "override"):
                continue  # a pure virtual function
            plain = token.text.replace("'", "")
            floating = re.fullmatch(r"(\d*\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|0[xX][\da-fA-F.]+[pP][+-]?\d+)([fFlL]?)", plain)
            if floating:
                zero = not re.search("[1-9]", floating[1].lower().split("p")[0].removeprefix("0x").split("e")[0])
                yield "constant", i, [self.edit(i, ("1.0" if zero else "0.0") + floating[2])]
                continue
            whole = re.fullmatch(r"(0[xX][\da-fA-F]+|0[bB][01]+|\d+)([uUlLzZ]*)", plain)
            if whole is None:
                continue
            octal = re.fullmatch("0[0-7]+", whole[1])
            value = int(whole[1], 8 if octal else 0)
            write = hex if whole[1][:2].lower() == "0x" else "0{:o}".format if octal else str
            yield "constant+1", i, [self.edit(i, write(value + 1) + whole[2])]
            if value > 0:
                yield "constant-1", i, [self.edit(i, write(value - 1) + whole[2])]

    def arguments(self):
        for i, token in enumerate(self.tokens):
            call = token.text == "(" and self.tokens[i - 1].kind == "name" and \
                self.text(i - 1) not in ("if", "for", "while", "switch", "catch", "return", "sizeof", "decltype", "min", "max", "noexcept")
            values = token.text == "{" and i not in self.code_braces
            if not (call or values) or not self.in_code[i] or self.quiet[i] or i not in self.partner:
                continue
            parts = self.parts(i)
            for (begin, end), (other, other_end) in zip(parts, parts[1:]):
                first, second = self.written(begin, end), self.written(other, other_end)
                if first != second and self.kind_of(begin, end) and self.kind_of(begin, end) == self.kind_of(other, other_end):
                    yield "arguments", begin, [self.edit(begin, second, end), self.edit(other, first, other_end)]

    def parts(self, bracket):
        """The parts between commas."""
        parts, begin, i = [], bracket + 1, bracket + 1
        while i <= self.partner[bracket]:
            if self.text(i) == "," or i == self.partner[bracket]:
                if begin < i:
                    parts.append((begin, i - 1))
                begin = i + 1
            i = self.partner[i] + 1 if self.text(i) in ("(", "[", "{") and i in self.partner and i != bracket else i + 1
        return parts

    def written(self, begin, end):
        return self.content[self.tokens[begin].begin:self.tokens[end].end]

    def kind_of(self, begin, end):
        """Arguments of one kind may be exchanged; those without a kind stay."""
        tokens = self.tokens[begin:end + 1]
        if all(token.kind == "number" for token in tokens):
            return "number"
        if tokens[0].kind != "name" or any(token.text in ("{", "[[") for token in tokens) or \
                any(one.kind == other.kind == "name" for one, other in zip(tokens, tokens[1:])) or \
                any(token.text in "<>&*" and not self.spaced(begin + n) for n, token in enumerate(tokens)):
            return None
        return "data" if self.written(begin, end).endswith(".data()") else "name"

    def conditions(self):
        for statement in self.statements:
            if statement.kind not in ("if", "while") or self.quiet[statement.begin]:
                continue
            begin, end = statement.head + 1, self.partner[statement.head] - 1
            i = begin
            while i <= end:  # behind the declarations of if (a; b)
                if self.text(i) == ";":
                    begin = i + 1
                i = self.partner[i] + 1 if self.text(i) in ("(", "[", "{") and i in self.partner else i + 1
            if not self.declares(begin):
                yield "condition", begin, [self.edit(begin, "!(" + self.written(begin, end) + ")", end)]

    def choices(self):
        for i, token in enumerate(self.tokens):
            if token.text != "?" or self.quiet[i]:
                continue
            colon, depth = i + 1, 1
            while colon < len(self.tokens):
                depth += {"?": 1, ":": -1}.get(self.text(colon), 0)
                if depth == 0 or self.text(colon) == ";":
                    break
                colon = self.partner[colon] + 1 if self.text(colon) in ("(", "[", "{") else colon + 1
            if self.text(colon) != ":":
                continue
            end = colon + 1
            while end < len(self.tokens) and self.text(end) not in (";", ",", ")", "]", "}", ":", "?"):
                end = self.partner[end] + 1 if self.text(end) in ("(", "[", "{") else end + 1
            if self.text(end) == "?":
                continue  # one of many; the last of them is exchanged
            first, second = self.written(i + 1, colon - 1), self.written(colon + 1, end - 1)
            if first != second:
                yield "choice", i, [self.edit(i + 1, second, colon - 1), self.edit(colon + 1, first, end - 1)]

    def dropped(self):
        for one in self.statements:
            if one.kind != "simple" or self.text(one.end) != ";" or one.begin == one.end:
                continue
            word, written = self.text(one.begin), self.written(one.begin, one.end)
            if word in ("break", "continue"):
                yield "jump", one.begin, [self.edit(one.begin, {"break": "continue", "continue": "break"}[word])]
            elif word in ("return", "throw"):
                under_if = one.alone or self.text(one.brace - 1) == ")" and self.text(self.partner[one.brace - 1] - 1) in ("if", "constexpr")
                if under_if:
                    yield "drop", one.begin, [self.edit(one.begin, ";", one.end)]
            elif re.match(r"(const )?std::(lock_guard|scoped_lock|unique_lock)\b", written):
                yield "wait", one.begin, [self.edit(one.begin, ";", one.end)]
            elif not self.declares(one.begin):
                waits = WAITS.search(re.sub(r"\{.*\}", "", written, flags=re.DOTALL))
                yield "wait" if waits else "drop", one.begin, [self.edit(one.begin, ";", one.end)]

    def loops(self):
        for one in self.statements:
            if one.kind not in ("for", "while"):
                continue
            if self.text(one.body) == "{":
                close = self.partner[one.body]
                yield "break", one.begin, [(self.tokens[one.body].end, self.tokens[one.body].end, " break;")]
                yield "once", one.begin, [(self.tokens[close].begin, self.tokens[close].begin, "break; ")]
            else:
                body = self.written(one.body, one.end)
                yield "break", one.begin, [self.edit(one.body, "break;", one.end)]
                yield "once", one.begin, [self.edit(one.body, "{ " + body + " break; }", one.end)]

    def barriers(self):
        """`return` ends a thread's phase and not the two, hence the functions within."""
        by_end = {one.begin: one for one in self.statements if one.kind == "simple"}
        for one in self.statements:
            if one.kind != "simple" or one.end + 1 not in by_end:
                continue
            other = by_end[one.end + 1]
            bodies = [self.phase(one), self.phase(other)]
            if None in bodies or self.written(one.begin, bodies[0]) != self.written(other.begin, bodies[1]):
                continue
            (first, second), ends = bodies, [self.partner[body] for body in bodies]
            yield "barrier", other.begin, [
                (self.tokens[first].end, self.tokens[first].end, " [&] {"),
                (self.tokens[ends[0]].end, self.tokens[second].end, "(); [&] {"),
                (self.tokens[ends[1]].begin, self.tokens[ends[1]].begin, "}(); ")]

    def phase(self, one):
        """The brace of block.phase([&](int thread) { ... });"""
        match = re.match(r"\w+\.phase\(\[&\]\(int \w+\) \{", self.written(one.begin, one.end))
        if match is None:
            return None
        brace = one.begin
        while self.text(brace) != "{":
            brace += 1
        return brace


def apply(content, edits):
    parts, at = [], 0
    for begin, end, text in edits:
        parts += [content[at:begin], text]
        at = end
    return "".join(parts) + content[at:]


def short(text, most=90):
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most - 40] + " ... " + text[-35:]


def chosen(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) or name == pattern or name.startswith(pattern.rstrip("/") + "/") for pattern in patterns)
