#!/usr/bin/env python3
"""The same text and figures again, in plain Python from docs/specification/training.md: symbols bit for bit, entropy
and floors to 1e-9. With --self-test: that mistakes in the figures are told.

Usage: witness.py PROBE [--self-test]
"""

import json
import math
import subprocess
import sys
from collections import Counter, defaultdict

MASK = (1 << 64) - 1
SUCCESSORS, WEIGHTS, SYMBOL, STATE, DISTANCE = range(1, 6)


def mix64(value):
    value ^= value >> 30
    value = value * 0xBF58476D1CE4E5B9 & MASK
    value ^= value >> 27
    value = value * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


class Source:
    def __init__(self, settings):
        self.__dict__.update(settings)
        self.rows = [self.row(number) for number in range(self.kinds * self.symbols)]

    def draw(self, stream, index, limit):
        start = mix64(self.seed ^ mix64(stream))
        return mix64((start + index * 0x9E3779B97F4A7C15) & MASK) * limit >> 64

    def row(self, number):
        left, row = list(range(self.symbols)), []
        for i in range(self.successors):
            at = number * self.successors + i
            other = i + self.draw(SUCCESSORS, at, self.symbols - i)
            left[i], left[other] = left[other], left[i]
            row.append((left[i], 2 ** self.draw(WEIGHTS, at, 6)))
        return row

    def row_behind(self, before, last):
        return self.rows[before % self.kinds * self.symbols + last]

    def chance(self, before, last, symbol):
        row = self.row_behind(before, last)
        return sum(w for s, w in row if s == symbol) / sum(w for _, w in row)

    def text(self, length):
        text, distance = [], None
        for t in range(length):
            if t >= self.farthest:
                chance = self.draw(STATE, t, 65536)
                if distance is None:
                    if chance < self.begins:
                        distance = self.nearest + self.draw(DISTANCE, t, self.farthest - self.nearest + 1)
                elif chance < self.ends:
                    distance = None
            if distance is not None:
                text.append(text[t - distance])
            elif t < 2:
                text.append(self.draw(SYMBOL, t, self.symbols))
            else:
                row = self.row_behind(text[t - 2], text[t - 1])
                left = self.draw(SYMBOL, t, sum(w for _, w in row))
                for symbol, weight in row:
                    left -= weight
                    if left < 0:
                        text.append(symbol)
                        break
        return text

    def loss_on(self, text, measured_from):
        """A dictionary of states: None is free, d copies from d back."""
        begins, ends = self.begins / 65536, self.ends / 65536
        distances = range(self.nearest, self.farthest + 1)
        states, loss = {None: 1.0}, 0.0
        for t, symbol in enumerate(text):
            if t >= self.farthest:
                free = states.get(None, 0.0)
                moved = {d: states.get(d, 0.0) * (1 - ends) + free * begins / len(distances) for d in distances}
                moved[None] = free * (1 - begins) + ends * sum(p for d, p in states.items() if d is not None)
                states = moved
            seen = {}
            for state, p in states.items():
                if state is None:
                    p *= 1 / self.symbols if t < 2 else self.chance(text[t - 2], text[t - 1], symbol)
                elif text[t - state] != symbol:
                    continue
                if p > 0:
                    seen[state] = p
            total = sum(seen.values())
            if t >= measured_from:
                loss -= math.log(total)
            states = {state: p / total for state, p in seen.items()}
        return loss / (len(text) - measured_from)


def floors(learned, measured, symbols):
    behind = defaultdict(Counter)
    for order in range(8):
        for t in range(order, len(learned)):
            behind[tuple(learned[t - order:t])][learned[t]] += 1

    def chance(context, symbol):
        lower = chance(context[1:], symbol) if context else 1 / symbols
        counts = behind.get(context)
        if not counts:
            return lower
        return (counts[symbol] + len(counts) * lower) / (sum(counts.values()) + len(counts))

    return [-sum(math.log(chance(tuple(measured[max(0, t - order):t]), measured[t])) for t in range(len(measured))) / len(measured)
            for order in range(8)]


def wrong(figures):
    """The errors, as a list of texts."""
    source, told = Source(figures), []
    learned, measured = figures["learned"], figures["measured"]
    text = source.text(len(learned) + len(measured))
    if text != learned + measured:
        told.append("the text is another from symbol %d on" %
                    next(t for t, (a, b) in enumerate(zip(text, learned + measured)) if a != b))
        return told
    entropy = source.loss_on(text, len(learned))
    if not abs(entropy - figures["entropy"]) <= 1e-9:
        told.append(f"the entropy is {figures['entropy']!r} and not {entropy!r}")
    for order, (found, expected) in enumerate(zip(figures["floors"], floors(learned, measured, figures["symbols"]), strict=True)):
        if not abs(found - expected) <= 1e-9:
            told.append(f"the floor of order {order} is {found!r} and not {expected!r}")
    return told


def main():
    all_figures = json.loads(subprocess.run([sys.argv[1], "figures"], check=True, capture_output=True).stdout)
    if sys.argv[2:] == ["--self-test"]:
        figures = all_figures[1]
        mistakes = [{"entropy": figures["entropy"] + 1e-8}, {"floors": figures["floors"][:7] + [figures["floors"][7] * (1 + 1e-8)]},
                    {"measured": figures["measured"][:-1] + [(figures["measured"][-1] + 1) % 5]}, {"ends": figures["ends"] + 1}]
        missed = [mistake for mistake in mistakes if not wrong({**figures, **mistake})]
        print(f"{len(mistakes)} mistakes, {len(missed)} not told")
        return 1 if missed else 0
    told = [line for figures in all_figures for line in wrong(figures)]
    print("\n".join(told) or "texts, entropies and floors are as they should be")
    return 1 if told else 0


sys.exit(main())
