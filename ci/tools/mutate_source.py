"""Parses a C++ source for ci/mutate: tokens, matching brackets, begins and ends of statements."""

import collections
import re

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<text>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'[\w]|[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><<=|>>=|<=>|\.\.\.|->\*|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|\+=|-=|\*=|/=|%=|&=|\|=|\^=|->|::|\[\[|\]\]|.)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

Token = collections.namedtuple("Token", "kind text begin end")

NO_EXPRESSION = {"const", "static", "constexpr", "auto", "using", "typedef", "struct", "class", "enum", "unsigned", "signed",
                 "return", "throw", "goto", "static_assert", "template", "friend", "public", "private", "protected", "extern",
                 "break", "continue", "namespace", "default", "case", "co_return", "thread_local", "inline", "typename"}
BEFORE_CODE = {")", "else", "do", "try", "const", "noexcept", "override", "final", "mutable", "]", ";", "{", "}", ":"}


class Source:
    """One file's tokens and their structure."""

    def __init__(self, file, content):
        self.file, self.content = file, content
        self.tokens = [Token(match.lastgroup if match.lastgroup != "mark" else "text", match.group(), match.start(), match.end())
                       for match in TOKEN.finditer(content) if not match.group("skip")]
        self.line_begins = [0] + [match.end() for match in re.finditer("\n", content)]
        self.partner = self.brackets()
        self.code_braces = [i for i, token in enumerate(self.tokens) if token.text == "{" and self.is_code(i)]
        self.in_code = self.marked((i, self.partner[i]) for i in self.code_braces)
        self.statements = [statement for brace in self.code_braces for statement in self.block(brace)]
        self.quiet = self.marked(self.words_only())
        self.loop_headers = self.marked((kind.head, self.partner[kind.head]) for kind in self.statements if kind.kind == "for")

    def brackets(self):
        partner, open_ones = {}, []
        for i, token in enumerate(self.tokens):
            if token.kind != "sign":
                continue
            if token.text in ("(", "[", "{", "[["):
                open_ones.append(i)
            elif token.text in (")", "]", "}", "]]") and open_ones:
                if token.text == "]]" and self.tokens[open_ones[-1]].text == "[":  # a[b[i]]: two of them
                    partner[open_ones.pop()] = i
                partner[open_ones[-1]], partner[i] = i, open_ones[-1]
                open_ones.pop()
        return partner

    def text(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def marked(self, ranges):
        inside = [False] * (len(self.tokens) + 1)
        for begin, end in ranges:
            for i in range(begin, end + 1):
                inside[i] = True
        return inside

    def is_code(self, brace):
        """Whether the braces contain statements: not a class, a namespace or a list of values."""
        before = self.text(brace - 1)
        if before not in BEFORE_CODE:
            i = brace - 1  # a function that says what it returns: ) -> Type {
            while i > 0 and (self.tokens[i].kind == "name" or self.text(i) in ("::", "<", ">", "*", "&")):
                i -= 1
            if self.text(i) != "->" or self.text(i - 1) not in (")", "mutable", "const", "noexcept"):
                return False
        begin = brace - 1
        while begin >= 0 and self.text(begin) not in (";", "{", "}"):
            begin = self.partner[begin] - 1 if self.text(begin) in (")", "]") and begin in self.partner else begin - 1
        begin += 1
        while self.text(begin) == "template":
            depth, begin = 0, begin + 1
            while begin < brace:
                depth += {"<": 1, ">": -1, ">>": -2}.get(self.text(begin), 0)
                begin += 1
                if depth <= 0:
                    break
        return self.text(begin) not in ("namespace", "class", "struct", "union", "enum", "extern")

    # --- statements

    Statement = collections.namedtuple("Statement", "kind begin end head body brace alone")

    def block(self, brace):
        i, end = brace + 1, self.partner[brace]
        while i < end:
            found, i = self.statement(i, end, brace, False)
            yield from found

    def statement(self, i, end, brace, alone):
        """The statements that begin with token i, and what follows. `alone`: the only statement of an if
        or a loop."""
        word = self.text(i)
        if word == "{":
            return [], self.partner[i] + 1  # a block of its own
        if word in ("if", "for", "while", "switch", "catch"):
            head = i + 1
            while self.text(head) != "(":
                head += 1
            body = self.partner[head] + 1
            if word == "while" and self.text(body) == ";" and self.text(i - 1) == "}":
                return [], body + 1  # the end of a do
            inner, after = self.statement(body, end, brace, True)
            return [self.Statement(word, i, after - 1, head, body, brace, alone)] + inner, after
        if word in ("else", "do", "try"):
            return self.statement(i + 1, end, brace, True)
        if word in ("case", "default") or (self.tokens[i].kind == "name" and self.text(i + 1) == ":"):
            while self.text(i) != ":":
                i += 1
            return [], i + 1
        last = i
        while last < end and self.text(last) != ";":
            last = self.partner[last] + 1 if self.text(last) in ("(", "[", "{", "[[") and last in self.partner else last + 1
        return [self.Statement("simple", i, min(last, end - 1), None, None, brace, alone)], last + 1

    def words_only(self):
        """Places where a bug would change only a message, or nothing: throw, static_assert, attributes,
        concatenated strings."""
        for statement in self.statements:
            if statement.kind == "simple" and self.text(statement.begin) in ("throw", "static_assert"):
                yield statement.begin, statement.end
        for i, token in enumerate(self.tokens):
            if token.text in ("[[", "alignas", "static_assert") or (token.text == "throw" and self.text(i + 2) == "("):
                close = i if token.text == "[[" else i + 1
                while self.text(close) not in ("(", "[["):
                    close += 1
                yield i, self.partner[close]

    def declares(self, i):
        """Whether the statement that begins there declares something."""
        if self.text(i) in NO_EXPRESSION:
            return True
        if self.tokens[i].kind != "name":
            return False
        while self.tokens[i].kind == "name" or self.text(i) == "::":
            if self.tokens[i].kind == "name" and self.tokens[i + 1].kind == "name":
                return True
            i += 1
            if self.text(i) == "<" and not self.spaced(i):
                depth = 0
                while True:
                    depth += {"<": 1, ">": -1, ">>": -2}.get(self.text(i), 0)
                    i += 1
                    if depth <= 0 or self.text(i) in (";", ""):
                        break
                if self.tokens[i].kind == "name":
                    return True
        return self.text(i) in ("*", "&", "&&") and not self.spaced(i)

    def spaced(self, i):
        token = self.tokens[i]
        return self.content[token.begin - 1].isspace() and self.content[token.end:token.end + 1].isspace()
