"""What a kernel's machine code asks of a multiprocessor, counted in what nvdisasm prints of it; ci/gpu-resources writes gpu/sass.txt.

A row is of a kernel outside of its loops, or of once through a loop outside of its inner loops. It is counted on one way through:
of all ways the one that moves most bytes in accesses of 16, and of those the longest. That is what a warp does where each
condition holds for some thread of it, and the tile is whole and aligned.

instructions  that have to be issued
waits         how often the warp stops for global memory, one after the other: it issues in order, and stops where it reads a
              register that is still being loaded; when it goes on, all has come that it had asked for
chain         the most global loads, from the kernel's begin on, of which each needs the one before it for its address
l16 to l1     global loads by the bytes of a thread; s16 to s1: stores
shared        loads and stores of shared memory
atoms, reds   atomics on shared and on global memory
barriers
spins         loops that go around until another thread lets them: around an atomic that may fail, a clock, or a place that others
              write. Their bodies are counted once, in the row that they stand in
"""
import dataclasses
import re

WIDTHS = (16, 8, 4, 2, 1)
COUNTS = ("instructions", "waits", "chain", *(f"l{width}" for width in WIDTHS), *(f"s{width}" for width in WIDTHS),
          "shared", "atoms", "reds", "barriers", "spins")
ENDS = ("EXIT", "RET", "BRA", "BRX", "JMP", "KILL")
LOADS, STORES = ("LDG", "LD"), ("STG", "ST")
WRITES_NOTHING = (*STORES, "STS", "RED", "REDG", "BAR")


@dataclasses.dataclass
class Instruction:
    opcode: str  # with its modifiers
    predicate: str
    operands: str
    depth: int = 0  # of a load: it and the loads that its place is from

    @property
    def base(self):
        return self.opcode.split(".")[0]

    @property
    def width(self):
        """Bytes that a thread loads or stores."""
        known = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
        return next((known[modifier] for modifier in self.opcode.split(".")[1:] if modifier in known), 4)

    @property
    def target(self):
        found = re.search(r"\.L_x_\d+", self.operands)
        return found.group() if found else None

    @property
    def may_fail(self):
        """Whether it waits for others if it is in a loop."""
        return (self.base.startswith("ATOM") and "CAS" in self.opcode) or \
            "SR_CLOCK" in self.operands or (self.base in LOADS and "STRONG" in self.opcode)


class Kernel:
    """Blocks of instructions, the ways between them, and the loops: the blocks of each by the number of
    its first one."""

    def __init__(self, lines):
        self.blocks, self.labels = [[]], {}
        for line in lines:
            if label := re.match(r"(\.L_x_\d+):", line):
                if self.blocks[-1]:
                    self.blocks.append([])
                self.labels[label.group(1)] = len(self.blocks) - 1
            elif found := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", line):
                self.blocks[-1].append(Instruction(found.group(2), found.group(1) or "", found.group(3)))
                if self.blocks[-1][-1].base in ENDS:
                    self.blocks.append([])
        self.next = [self._after(number) for number in range(len(self.blocks))]
        self.order, self.back = self._order()
        self.loops = self._loops()
        self._flow()

    def _after(self, number):
        following = [number + 1] if number + 1 < len(self.blocks) else []
        last = self.blocks[number][-1] if self.blocks[number] else None
        if last is None or last.base not in ENDS:
            return following
        if last.base in ("BRX", "JMP"):
            raise ValueError(f"{last.opcode} {last.operands}: where it goes is not known; teach ci/gpu_sass.py")
        # `@!P1 BRA P2, L`: either may keep it from jumping. What is called (a slow division) comes back, and is not counted.
        conditional = last.predicate or re.match(r"!?U?P\d", last.operands)
        return ([self.labels[last.target]] if last.base == "BRA" else []) + (following if conditional else [])

    def _order(self):
        """The reachable blocks, each before those that follow it, and the back edges of loops."""
        left, back, open_, stack = [], set(), {0}, [(0, iter(self.next[0]))]
        seen = {0}
        while stack:
            number, rest = stack[-1]
            follower = next(rest, None)
            if follower is None:
                left.append(number)
                open_.discard(number)
                stack.pop()
            elif follower not in seen:
                seen.add(follower)
                open_.add(follower)
                stack.append((follower, iter(self.next[follower])))
            elif follower in open_:
                back.add((number, follower))
        return left[::-1], back

    def _loops(self):
        before = {number: [one for one in self.order if number in self.next[one]] for number in self.order}
        loops = {}
        for tail, head in sorted(self.back):
            body, todo = loops.setdefault(head, {head}), [tail]
            while todo:
                number = todo.pop()
                if number not in body:
                    body.add(number)
                    todo += before[number]
        return dict(sorted(loops.items()))

    def _flow(self):
        """How many dependent loads determine each load's address, along any way that goes through each
        loop once."""
        after = {}
        for number in self.order:
            depths = {}
            for before in (one for one in self.order if number in self.next[one] and (one, number) not in self.back):
                for register, depth in after[before].items():
                    depths[register] = max(depth, depths.get(register, 0))
            for instruction in self.blocks[number]:
                read, written = operands_of(instruction)
                depth = max((depths.get(register, 0) for register in read), default=0)
                if instruction.base in LOADS:
                    depth += 1
                    instruction.depth = depth
                depths.update(dict.fromkeys(written, depth))
            after[number] = depths

    def _inside(self, head):
        """The blocks of loops that lie inside the loop, or the kernel (None), and do not fill it."""
        return [body for other, body in self.loops.items() if head is None or (other != head and body < self.loops[head])]

    def spins(self, head):
        own = self.loops[head].difference(*self._inside(head))
        return any(instruction.may_fail for number in own for instruction in self.blocks[number])

    def rows(self):
        """The counts by row: "" is the kernel outside of its loops, "1" its first loop, "1.2" the second one in that."""
        counted = [head for head in self.loops if not self.spins(head)]
        names, numbers = {None: ""}, {}
        result = {"": self._counts(None)}
        for head in counted:
            around = [other for other in counted if other != head and self.loops[head] < self.loops[other]]
            parent = min(around, key=lambda other: len(self.loops[other]), default=None)
            numbers[parent] = numbers.get(parent, 0) + 1
            names[head] = f"{names[parent]}.{numbers[parent]}".lstrip(".")
            result[names[head]] = self._counts(head)
        return result

    def _counts(self, head):
        inner = [other for other, body in self.loops.items() if body in self._inside(head)]
        apart = set().union(*(self.loops[other] for other in inner if not self.spins(other)))
        way = [number for number in self._way(head) if number not in apart]
        found = count([instruction for number in way for instruction in self.blocks[number]])
        found["spins"] = sum(other in way for other in inner if self.spins(other))
        return found

    def _way(self, head):
        inside = set(self.order) if head is None else self.loops[head]
        best = {}
        for number in reversed([number for number in self.order if number in inside]):
            ways = [best[other] for other in self.next[number] if other in best and (number, other) not in self.back]
            wide, length, rest = max(ways, key=lambda way: way[:2], default=(0, 0, None))
            block = self.blocks[number]
            wide += sum(one.width == 16 and one.base in LOADS + STORES for one in block)
            best[number] = (wide, length + len(block), (number, rest))
        way, rest = [], best[0 if head is None else head][2]
        while rest:
            way.append(rest[0])
            rest = rest[1]
        return way


def registers(text, wide):
    """The registers that operands name, `wide` of them from the first of each; two for R4.64."""
    return {f"{file}{at}" for file, number, pair in re.findall(r"\b(U?R)(\d+)(\.64)?", text)
            for at in range(int(number), int(number) + max(wide, 2 if pair else 1))}


def operands_of(instruction):
    """The registers that an instruction reads and those that it writes."""
    words = max(1, instruction.width // 4)
    first, _, others = instruction.operands.partition(",")
    if instruction.base == "SHFL":  # behind the predicate that it writes, too
        first, _, others = others.strip().partition(",")
    if instruction.base in WRITES_NOTHING or not re.match("U?R", first):
        address, _, value = instruction.operands.rpartition(",")
        stored = registers(value, words) if instruction.base in (*STORES, "STS") else registers(value, 1)
        return registers(address, 1) | stored, set()
    # Of a result or an operand of 64 bits the first register is named alone.
    loads = re.match("U?LD", instruction.base)
    pair = "WIDE" in instruction.opcode or instruction.base == "CS2R" or instruction.base in ("DADD", "DMUL", "DFMA")
    return registers(others, 2 if pair and not loads else 1), registers(first, words if loads else 2 if pair else 1)


def count(way):
    """The counts along one way of instructions."""
    found = dict.fromkeys(COUNTS, 0)
    asked = {}  # of a register that is being loaded: after how many waits it was asked for
    for instruction in way:
        base, width = instruction.base, instruction.width
        found["instructions"] += base != "NOP"
        read, written = operands_of(instruction)
        found["waits"] += any(asked.get(register) == found["waits"] for register in read)
        for register in written:
            asked.pop(register, None)
        if base in LOADS:
            found[f"l{width}"] += 1
            found["chain"] = max(found["chain"], instruction.depth)
            asked.update(dict.fromkeys(written, found["waits"]))
        elif base in STORES:
            found[f"s{width}"] += 1
        found["shared"] += base in ("LDS", "STS")
        found["atoms"] += base == "ATOMS"
        found["reds"] += base in ("RED", "REDG", "ATOM", "ATOMG")
        found["barriers"] += base == "BAR"
    return found


def parse(text):
    """The kernels in what `nvdisasm -c` prints, by their symbols."""
    kernels, name, lines = {}, None, []
    for line in [*text.splitlines(), ".section end"]:
        if line.lstrip().startswith(".section"):
            if name:
                kernels[name] = Kernel(lines)
            match = re.match(r'\s*\.section\s+\.text\.(\w+),"ax"', line)
            name, lines = match.group(1) if match else None, []
        else:
            lines.append(line)
    return kernels
