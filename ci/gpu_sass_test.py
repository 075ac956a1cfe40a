"""ci/gpu_sass.py and ci/gpu_sass_table.py over machine code written by hand: each count, and that each can differ."""

import unittest

import gpu_sass
from gpu_sass import COUNTS
from gpu_sass_table import by_quad, changes, read_table, table_of, whole

HEAD = '\t.section\t.text.kernel,"ax",@progbits\n.text.kernel:\n'
TAIL = ["EXIT", ".end", "BRA `(.end)", "NOP"]  # as ptxas ends each kernel


def rows_of(*lines):
    """The counts of a kernel of these lines; a line that begins with a dot is a label."""
    names = {}

    def named(line):
        for word in (word for word in ("." + part.strip("`() ;") for part in line.split(".") if part) if word in labels):
            line = line.replace(word, names.setdefault(word, f".L_x_{len(names)}"))
        return line

    every = [*lines, *TAIL]
    labels = [line for line in every if line.startswith(".")]
    text = HEAD
    for at, line in enumerate(every):
        text += f"{named(line)}:\n" if line.startswith(".") else f"        /*{16 * at:04x}*/                   {named(line)} ;\n"
    return gpu_sass.parse(text)["kernel"].rows()


def counts_of(*lines):
    """The non-zero counts of the kernel outside of its loops, without the instructions."""
    return {name: value for name, value in rows_of(*lines)[""].items() if value and name != "instructions"}


class Sass(unittest.TestCase):
    def test_widths(self):
        for bits, width in (("", 4), (".64", 8), (".128", 16), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1)):
            with self.subTest(bits):
                self.assertEqual(counts_of(f"LDG.E{bits} R4, desc[UR4][R2.64]"), {"chain": 1, f"l{width}": 1})
                self.assertEqual(counts_of(f"STG.E{bits} desc[UR4][R2.64], R4"), {f"s{width}": 1})

    def test_what_is_executed(self):
        self.assertEqual(counts_of("BAR.SYNC.DEFER_BLOCKING 0x0"), {"barriers": 1})
        self.assertEqual(counts_of("ATOMS.ADD R0, [UR4], R3", "ATOMS.POPC.INC.32 RZ, [UR4]"), {"atoms": 2})
        self.assertEqual(counts_of("REDG.E.OR.STRONG.GPU desc[UR4][R2.64], R4", "ATOMG.E.ADD R0, desc[UR4][R2.64], R4"), {"reds": 2})
        self.assertEqual(counts_of("LDS.64 R0, [R3]", "STS [R3], R0"), {"shared": 2})
        self.assertEqual(rows_of("@!P0 FADD R0, R1, R2", "IMAD.WIDE.U32 R4, R3, 0x4, R2")[""]["instructions"], 3)

    def test_behind_the_end_nothing_is_counted(self):
        self.assertEqual(set(rows_of("FADD R0, R1, R2")), {""})
        self.assertEqual(rows_of()[""]["instructions"], 1)
        self.assertEqual(rows_of("NOP")[""]["instructions"], 1)

    def test_waits(self):
        two = ("LDG.E R4, desc[UR4][R2.64]", "LDG.E R5, desc[UR4][R2.64+0x4]")
        self.assertEqual(counts_of(*two)["chain"], 1)
        self.assertNotIn("waits", counts_of(*two, "FADD R0, R1, R3"))  # nobody reads them
        self.assertEqual(counts_of(*two, "FADD R0, R4, R5")["waits"], 1)
        self.assertEqual(counts_of(*two, "FADD R0, R5, R1", "FADD R0, R4, R1")["waits"], 1)  # both have come
        self.assertEqual(counts_of(*two, "FADD R0, R4, R1", "FADD R0, R5, R1")["waits"], 1)
        self.assertEqual(counts_of(two[0], "FADD R0, R4, R1", two[1], "FADD R0, R5, R1")["waits"], 2)
        self.assertEqual(counts_of(*two, "LDG.E R6, desc[UR4][R2.64]", "FADD R0, R4, R1", "FADD R0, R6, R1")["waits"], 1)
        self.assertNotIn("waits", counts_of(two[0], "IMAD.MOV.U32 R4, RZ, RZ, RZ", "FADD R0, R4, R1"))  # written over

    def test_a_shuffle_reads_its_source_and_writes_behind_its_predicate(self):
        one = "LDG.E R4, desc[UR4][R2.64]"
        self.assertEqual(counts_of(one, "SHFL.UP P0, R5, R4, 0x1, RZ")["waits"], 1)
        self.assertNotIn("waits", counts_of(one, "SHFL.IDX PT, R4, R6, 0x1f, 0x1f", "FADD R0, R4, R1"))

    def test_waits_for_each_register_of_a_wide_load(self):
        for register in ("R4", "R7"):
            self.assertEqual(counts_of("LDG.E.128 R4, desc[UR4][R2.64]", f"FADD R0, {register}, R1")["waits"], 1)
        self.assertNotIn("waits", counts_of("LDG.E.128 R4, desc[UR4][R2.64]", "FADD R0, R8, R1"))
        self.assertEqual(counts_of("LDG.E.64 R4, desc[UR4][R2.64]", "STG.E.64 desc[UR4][R2.64], R4")["waits"], 1)
        self.assertEqual(counts_of("LDG.E R7, desc[UR4][R2.64]", "STG.E.128 desc[UR4][R2.64], R4")["waits"], 1)
        self.assertEqual(counts_of("LDG.E R5, desc[UR4][R2.64]", "LDG.E R0, desc[UR4][R4.64]")["waits"], 1)  # half of the address

    def test_chain(self):
        one = "LDG.E.64 R4, desc[UR4][R2.64]"
        self.assertEqual(counts_of(one, "LDG.E R6, desc[UR4][R2.64]")["chain"], 1)
        self.assertEqual(counts_of(one, "LDG.E R6, desc[UR4][R4.64]")["chain"], 2)
        self.assertEqual(counts_of(one, "LEA R8, P0, R5, UR6, 0x2", "LDG.E R6, desc[UR4][R8.64]")["chain"], 2)
        self.assertEqual(counts_of(one, "IMAD.MOV.U32 R4, RZ, RZ, UR4", "IMAD.MOV.U32 R5, RZ, RZ, UR5",
                                   "LDG.E R6, desc[UR4][R4.64]")["chain"], 1)  # the place is another
        self.assertEqual(counts_of(one, "@P0 BRA `(.skip)", "LDG.E R2, desc[UR4][R4.64]", ".skip",
                                   "LDG.E R6, desc[UR4][R2.64]")["chain"], 3)  # on the longest way
        for loads in (("LDG.E R2, desc[UR4][R4.64]", "IADD3 R2, R0, 0x1, RZ"), ("IADD3 R2, R0, 0x1, RZ", "LDG.E R2, desc[UR4][R4.64]")):
            self.assertEqual(counts_of(one, "@P0 BRA `(.other)", loads[0], "BRA `(.both)", ".other", loads[1], ".both",
                                       "LDG.E R6, desc[UR4][R2.64]")["chain"], 3)

    def test_the_way_with_wide_accesses_is_taken_though_it_is_shorter(self):
        scalars = [f"@!P2 LDG.E R{4 + at}, desc[UR4][R2.64+{4 * at:#x}]" for at in range(4)]
        found = counts_of("@!P2 BRA P3, `(.wide)", *scalars, "BRA `(.both)", ".wide", "LDG.E.128 R4, desc[UR4][R2.64]", ".both",
                          "FADD R0, R4, R5")
        self.assertEqual(found, {"waits": 1, "chain": 1, "l16": 1})

    def test_of_two_ways_the_longer_is_taken(self):
        for jump in ("@P0 BRA `(.other)", "BRA P0, `(.other)"):
            for one, other in ((1, 5), (5, 1)):
                rows = rows_of(jump, *["FADD R0, R1, R2"] * one, "BRA `(.both)", ".other", *["FMUL R0, R1, R2"] * other, ".both")
                self.assertEqual(rows[""]["instructions"], 7 if other > one else 8)

    def test_loops(self):
        rows = rows_of("S2R R0, SR_TID.X", ".outer", "FADD R1, R1, R2", ".inner", "LDG.E R3, desc[UR4][R4.64]", "FADD R5, R3, R5",
                       "@P0 BRA `(.inner)", "@P1 BRA `(.outer)", ".second", "FADD R6, R6, R1", "@P2 BRA `(.second)")
        self.assertEqual({name: counts["instructions"] for name, counts in rows.items()}, {"": 2, "1": 2, "1.1": 3, "2": 2})
        self.assertEqual([rows[name]["waits"] for name in ("", "1", "1.1", "2")], [0, 0, 1, 0])

    def test_spins(self):
        def spinning(line):
            return rows_of(".again", "FADD R0, R0, R1", line, "@P0 BRA `(.again)")

        for line in ("ATOMS.CAST.SPIN.64 R4, [R2], R6, R8", "ATOMG.E.CAS R0, [R2], R4, R5", "CS2R R2, SR_CLOCKLO",
                     "LDG.E.STRONG.GPU R0, desc[UR4][R2.64]"):
            rows = spinning(line)
            self.assertEqual((set(rows), rows[""]["spins"]), ({""}, 1), line)
        rows = spinning("ATOMS.ADD R0, [UR4], R3")
        self.assertEqual((set(rows), rows[""]["spins"]), ({"", "1"}, 0))
        self.assertEqual(counts_of("CS2R R2, SR_CLOCKLO"), {})  # no loop

    def test_a_jump_that_it_does_not_know(self):
        with self.assertRaisesRegex(ValueError, "BRX R4 .*: where it goes is not known"):
            rows_of("BRX R4 -0x10")

    def test_what_is_called_is_not_counted(self):
        self.assertEqual(rows_of("CALL.REL.NOINC `(.slow)", "EXIT", ".slow", "FADD R0, R1, R2", "RET.REL.NODEC R8 `(kernel)")[""]
                         ["instructions"], 2)

    def test_sections(self):
        text = HEAD + "        /*0000*/  EXIT ;\n" + HEAD.replace("kernel", "other") + "        /*0000*/  NOP ;\n\t.section .debug\n"
        self.assertEqual(list(gpu_sass.parse(text)), ["kernel", "other"])


class Table(unittest.TestCase):
    def setUp(self):
        base = dict.fromkeys(COUNTS, 0)
        self.rows = {"a/Pass": {**base, "instructions": 40, "chain": 1, "barriers": 1},
                     "a/Pass 1": {**base, "instructions": 100, "waits": 20, "chain": 2, "l16": 8, "s16": 4}}

    def changed(self, name, same=True, **counts):
        return changes(self.rows, {**self.rows, name: {**self.rows[name], **counts}}, same)

    def test_is_read_as_it_was_written(self):
        self.assertEqual(read_table(table_of(self.rows, "13.0.88")), (self.rows, "13.0.88"))

    def test_by_quad(self):
        self.assertEqual(by_quad(self.rows["a/Pass 1"]), "25")
        self.assertEqual(by_quad(self.rows["a/Pass"]), "-")
        self.assertEqual(by_quad({**self.rows["a/Pass 1"], "l16": 0, "s16": 2}), "50")
        self.assertEqual(by_quad({**self.rows["a/Pass 1"], "s16": 8}), "25")  # four quads of two vectors

    def test_every_count_is_compared(self):
        self.assertEqual(self.changed("a/Pass"), [])
        for name in COUNTS:
            before = self.rows["a/Pass 1"][name]
            self.assertEqual(self.changed("a/Pass 1", **{name: before + 1}), [f"a/Pass 1: {name} {before} -> {before + 1}"])

    def test_kernels_that_come_and_go(self):
        self.assertEqual(changes(self.rows, {"a/Pass": self.rows["a/Pass"]}, True), ["a/Pass 1: is gone"])
        self.assertEqual(changes({}, {"a/Pass": self.rows["a/Pass"]}, False), ["a/Pass: is new"])

    def test_another_compiler_is_given_room(self):
        self.assertEqual(self.changed("a/Pass 1", same=False, instructions=130, waits=25, l16=12), [])
        self.assertEqual(self.changed("a/Pass 1", same=False, instructions=180), ["a/Pass: instructions 140 -> 220"])
        self.assertEqual(self.changed("a/Pass 1", same=False, l16=0, l4=32), ["a/Pass: l16 8 -> 0, l4 0 -> 32"])
        for name in ("barriers", "spins"):
            self.assertEqual(len(self.changed("a/Pass 1", same=False, **{name: 1})), 1)
        cut = {"a/Pass": {**self.rows["a/Pass"], "instructions": 140, "waits": 20, "chain": 2, "l16": 8, "s16": 4}}
        self.assertEqual(changes(self.rows, cut, False), [])  # the same, without a loop
        self.assertEqual(whole(self.rows), cut)


if __name__ == "__main__":
    unittest.main()
