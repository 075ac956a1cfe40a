"""truestep.mapl over NumPy: every pass beside the witness (fixtures/mapl/independent), one boundary beside two; what is wrong is told."""

import dataclasses
import importlib.util
import itertools
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

import needs

needs.numpy()
import numpy as np  # noqa: E402
import truestep  # noqa: E402
from truestep.mapl import Boundary, State  # noqa: E402


def _witness() -> ModuleType:
    found = importlib.util.spec_from_file_location("witness", Path(__file__).parents[3] / "fixtures/mapl/independent/mapl.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


witness = _witness()
WIDTH, RANK, IDS, TOKENS = 8, 2, 3, 6
HALVES = np.array([[1, 1, 1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1, 1, -1], [1, 1, -1, -1, 1, 1, -1, -1], [1, -1, -1, 1, 1, -1, -1, 1]], np.float32)
# Orthonormal in powers of two beside data of few bits, so that all sums are exact in fp32 in any order: each row of width 8 has four entries.
A = np.ascontiguousarray((HALVES[[0, 1]] * [1, 1, 1, 1, 0, 0, 0, 0] / 2).T.astype(np.float32))
P = np.ascontiguousarray((HALVES[[2, 1]] * [0, 0, 1, 1, 1, 1, 0, 0] / 2).astype(np.float32))
P_OTHER = np.ascontiguousarray((HALVES[[3, 0]] * [0, 0, 0, 0, 1, 1, 1, 1] / 2).astype(np.float32))
TABLES = State(subspace=A, sender_rows=P, receiver_rows=P_OTHER)


def dyadic(seed: int, *shape: int) -> np.ndarray:
    return (np.random.default_rng(seed).integers(-16, 17, shape) / 8).astype(np.float32)


def activations(seed: int) -> np.ndarray:
    """So fine that bf16 does not hold all of Z."""
    return dyadic(seed, TOKENS, WIDTH) + dyadic(seed + 9, TOKENS, WIDTH) / 128


def made_up(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def some_ids(seed: int, tokens: int = TOKENS) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, IDS, tokens)


def through(boundary: Boundary, seed: int, mistake: str = "") -> dict[str, np.ndarray]:
    """A micro-batch of dyadic data through all four passes, and what they left; a mistake is one of whoever calls."""
    x, g, ids = activations(seed), dyadic(seed + 1, TOKENS, WIDTH), some_ids(seed)
    sender, receiver = dyadic(seed + 2, IDS, RANK), dyadic(seed + 3, IDS, RANK)
    of_sender, of_receiver = np.zeros((IDS, RANK), np.float32), np.zeros((IDS, RANK), np.float32)
    z, q = boundary.compress(x, ids, sender)
    xhat = boundary.decompress(z, ids if mistake != "ids" else (ids + 1) % IDS, receiver if mistake != "anchor" else 0 * receiver)
    dz = boundary.decompress_backward(z, g, ids, of_receiver)
    if mistake == "transposed":
        dz = np.ascontiguousarray(g @ boundary.subspace.reshape(RANK, WIDTH).T)
    dx = boundary.compress_backward(q if mistake != "x" else x, dz, ids, of_sender)
    return {"Z": z, "Xhat": xhat, "dZ": dz, "dX": dx, "sender": boundary.part("sender"), "receiver": boundary.part("receiver"),
            "dEp": of_sender, "dEq": of_receiver}


class Given:
    """Where the witness draws X and dL/dXhat, and ids, these."""

    def __init__(self, ids: np.ndarray, *values: np.ndarray) -> None:
        self.ids, self.values = ids, list(values)

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        value = self.values.pop(0)
        assert value.shape == tuple(shape)
        return value

    def integers(self, low: int, high: int, count: int) -> np.ndarray:
        assert len(self.ids) == count and low <= self.ids.min() and self.ids.max() < high
        return self.ids


def right(seed: int, payload: str = "fp32") -> dict[str, np.ndarray]:
    """The same of the witness, in double."""
    x, g, ids = activations(seed), dyadic(seed + 1, TOKENS, WIDTH), some_ids(seed)
    wide: list[Any] = [np.asarray(m, np.float64) for m in (A, dyadic(seed + 2, IDS, RANK), P, dyadic(seed + 3, IDS, RANK), P_OTHER, x, g)]
    case = {"tokens": TOKENS, "width": WIDTH, "vocabulary": IDS, "payload": payload, "loss": "given"}
    anchors = dict(zip(("Ep", "Pp", "Eq", "Pq"), wide[1:5]))
    sums = {name: np.zeros((WIDTH, RANK)) for name in ("sender", "receiver")} | {name: np.zeros((IDS, RANK)) for name in ("dEp", "dEq")}
    made = witness.micro_batch(case, anchors, {}, wide[0], sums, 0, Given(np.asarray(ids), wide[5], wide[6]))
    return {name: made[name] for name in ("Z", "Xhat", "dZ", "dX")} | sums


class Passes(unittest.TestCase):
    def differing(self, arithmetic: str, mistake: str = "") -> list[str]:
        boundary = Boundary(WIDTH, RANK, IDS, anchors="two", arithmetic=arithmetic, state=TABLES)
        made, wanted = through(boundary, 40, mistake), right(40)
        self.assertEqual(made.keys(), wanted.keys())
        return [name for name in wanted if not np.array_equal(made[name], wanted[name])]

    def test_both_forms_have_every_value_of_the_witness(self) -> None:
        for arithmetic in ("optimized", "reference"):
            self.assertEqual(self.differing(arithmetic), [])

    def test_payloads_of_16_bits_are_those_of_the_witness(self) -> None:
        for arithmetic in ("optimized", "reference"):
            made = through(Boundary(WIDTH, RANK, IDS, anchors="two", arithmetic=arithmetic, payload="bf16", state=TABLES), 40)
            self.assertEqual([name for name, value in right(40, "bf16").items() if not np.array_equal(made[name], value)], [])
            self.assertEqual(np.count_nonzero(np.concatenate([made["Z"], made["dZ"]]).view(np.uint32) & 0xFFFF), 0)
            self.assertFalse(np.array_equal(made["Z"], right(40)["Z"]))  # some of it does not fit

    def test_a_mistake_is_seen_where_it_is(self) -> None:
        for mistake, seen in (("anchor", ["Xhat"]), ("ids", ["Xhat"]), ("transposed", ["dZ", "dX", "sender", "dEp"]), ("x", ["sender"])):
            self.assertEqual(self.differing("optimized", mistake), seen, mistake)

    def test_without_anchors_nothing_is_copied(self) -> None:
        x, ids = made_up(1, TOKENS, WIDTH), some_ids(1)
        z, q = Boundary(WIDTH, RANK, IDS).compress(x, ids)
        self.assertIs(q, x)
        self.assertEqual(z.shape, (TOKENS, RANK))

    def test_full_rank_loses_nothing(self) -> None:
        identity = State(subspace=np.eye(WIDTH, dtype=np.float32)[:, ::-1].copy())
        boundary = Boundary(WIDTH, WIDTH, IDS, state=identity)
        x, ids = made_up(2, TOKENS, WIDTH), some_ids(2)
        self.assertEqual(boundary.decompress(boundary.compress(x, ids)[0], ids).tobytes(), x.tobytes())

    def test_no_tokens(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS)
        none = np.empty(0, np.int64)
        z, q = boundary.compress(np.empty((0, WIDTH), np.float32), none)
        dz = boundary.decompress_backward(z, boundary.decompress(z, none), none)
        self.assertEqual(boundary.compress_backward(q, dz, none).shape, (0, WIDTH))
        self.assertTrue(boundary.step(0.1))

    def test_every_id_of_a_large_vocabulary(self) -> None:
        vocabulary = 1 << 17
        boundary = Boundary(2, 1, vocabulary, anchors="fixed")
        anchor = np.arange(vocabulary, dtype=np.float32).reshape(-1, 1)
        ids = np.arange(vocabulary)
        xhat = boundary.decompress(np.zeros((vocabulary, 1), np.float32), ids, anchor)
        self.assertTrue(np.array_equal(xhat, anchor @ boundary.state.sender_rows))


class Steps(unittest.TestCase):
    def carry(self, sender: Boundary, receiver: Boundary, seed: int) -> None:
        x, g, ids = made_up(seed, TOKENS, WIDTH), made_up(seed + 1, TOKENS, WIDTH), some_ids(seed)
        z, q = sender.compress(x, ids)
        receiver.decompress(z, ids)
        sender.compress_backward(q, receiver.decompress_backward(z, g, ids), ids)

    def train(self, sender: Boundary, receiver: Boundary, steps: range, forgets: bool = False) -> bytes:
        for step in steps:
            for micro in range(2):
                self.carry(sender, receiver, 100 * step + 10 * micro)
            if sender is receiver:
                self.assertTrue(sender.step(0.1))
                continue
            part = receiver.part("receiver")
            self.assertTrue(sender.step(0.1, 0 * part if forgets else part))
            receiver.follow(sender.subspace)
            self.assertEqual(sender.subspace.tobytes(), receiver.subspace.tobytes())
        return sender.subspace.tobytes()

    def test_two_boundaries_are_one(self) -> None:
        for settings in ({}, {"order": "momentum_first", "beta": 0.5}, {"arithmetic": "reference"}, {"seed": 9}):
            one, sender, receiver = (Boundary(WIDTH, RANK, IDS, **settings) for _ in range(3))
            self.assertEqual(self.train(one, one, range(4)), self.train(sender, receiver, range(4)))
            self.assertEqual((sender.steps, receiver.steps), (4, 4))
            self.assertNotEqual(self.train(Boundary(WIDTH, RANK, IDS, **settings), Boundary(WIDTH, RANK, IDS, **settings), range(4), forgets=True),
                                one.subspace.tobytes())

    def test_a_state_goes_on(self) -> None:
        one = Boundary(WIDTH, RANK, IDS)
        self.train(one, one, range(2))
        saved = one.state
        later = Boundary(WIDTH, RANK, IDS, state=saved)
        lost = Boundary(WIDTH, RANK, IDS, state=dataclasses.replace(saved, moment=0 * saved.moment))
        wanted = self.train(one, one, range(2, 4))
        self.carry(later, later, 5)
        later.restore(saved)
        self.assertEqual(self.train(later, later, range(2, 4)), wanted)
        self.assertNotEqual(self.train(lost, lost, range(2, 4)), wanted)

    def test_the_subspace_is_that_of_the_witness(self) -> None:
        """SPEL by singular values, in double. Fp32 stays within 2e-7 of it here; the other order is 5e-4 away, and more."""
        orders = ("project_first", "momentum_first")
        for (order, other), arithmetic in itertools.product((orders, orders[::-1]), ("optimized", "reference")):
            boundary = Boundary(WIDTH, RANK, IDS, order=order, beta=0.5, arithmetic=arithmetic)
            a, m = boundary.subspace.astype(np.float64), np.zeros((WIDTH, RANK))
            for step in range(3):
                for micro in range(2):
                    self.carry(boundary, boundary, 100 * step + 10 * micro)
                g = boundary.part("sender").astype(np.float64) + boundary.part("receiver")
                wrong = witness.spel(a, m, g, other, 0.5, 0.1)
                a, m = witness.spel(a, m, g, order, 0.5, 0.1)
                self.assertTrue(boundary.step(0.1))
                self.assertLess(np.abs(boundary.subspace - a).max(), 1e-6)
                if step > 0:
                    self.assertGreater(np.abs(boundary.subspace - wrong[0]).max(), 1e-4)
            distance, bound = boundary.distance
            self.assertTrue(0 < distance <= bound)

    def test_a_gradient_that_is_not_finite_steps_nowhere(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS)
        before = boundary.subspace.tobytes()
        self.assertFalse(boundary.step(0.1, np.full((WIDTH, RANK), np.nan, np.float32)))
        self.assertEqual((boundary.steps, boundary.subspace.tobytes()), (1, before))


class Told(unittest.TestCase):
    def test_settings_and_states(self) -> None:
        for arguments, settings, text in (
                ((4, 5), {}, "rank is 5; it must be from 1 to the width, which is 4"), ((4, 2), {"density": 1}, "'density=1' is not a setting"),
                ((4, 2, 0), {}, "vocabulary is 0"), ((4, 2), {"anchors": "one"}, "none, fixed, shared or two"),
                ((WIDTH, RANK), {"state": State(subspace=2 * A)}, r"off the manifold: \|A\^T A - I\| is 3, and rounding explains "),
                ((WIDTH, RANK), {"state": State(subspace=A[1:])}, "subspace: it has 14 values"),
                ((WIDTH, RANK), {"state": TABLES}, "anchors=none"), ((WIDTH, RANK), {"state": State(steps=-1)}, "steps is -1"),
                ((WIDTH, RANK), {"anchors": "two", "state": State(sender_rows=A.T.copy() * 3)}, "orthonormal rows")):
            with self.assertRaisesRegex(truestep.Error, text):
                Boundary(*arguments, **settings)

    def test_arrays(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS, anchors="two")
        x, ids, table = made_up(1, TOKENS, WIDTH), some_ids(1), np.zeros((IDS, RANK), np.float32)
        z, _ = boundary.compress(x, ids, table)
        frozen = table.copy()
        frozen.flags.writeable = False
        for call, text in (
                (lambda: boundary.compress(x, ids + 1, table), "the id of token . is 3; the vocabulary is 3"),
                (lambda: boundary.compress(x, ids - 3, table), "the id of token 0 is -"),
                (lambda: boundary.compress(x, ids * 1.0, table), "they are float64 in 1 dimensions"),
                (lambda: boundary.compress(x, ids[:3], table), r"x: its shape is \(6, 8\); give \(3, 8\)"),
                (lambda: boundary.compress(x.T, ids, table), "strides"),
                (lambda: boundary.compress(x.astype(np.float64), ids, table), "float64"),
                (lambda: boundary.compress(x, ids), "anchor is NULL"),
                (lambda: boundary.compress(x, ids, table.T.copy()), r"anchor: its shape is \(2, 3\)"),
                (lambda: boundary.compress(np.full_like(x, np.inf), ids, table), "activations has a value that is not finite"),
                (lambda: boundary.compress(x, ids, table + np.float32(np.nan)), "a row of the anchor is not finite"),
                (lambda: boundary.decompress_backward(z, x, ids, frozen), "cannot be written to"),
                (lambda: boundary.decompress_backward(z, x, ids, step=4), "went forward at step 4, and A is that of step 0"),
                (lambda: boundary.decompress_backward(z, z, ids), "gradient: its shape"),
                (lambda: Boundary(WIDTH, RANK, IDS, anchors="fixed").decompress_backward(z, x, ids, table), "nothing is trained with anchors=fixed"),
                (lambda: Boundary(WIDTH, RANK, IDS).decompress(z, ids, table), "give NULL"),
                (lambda: boundary.part("both"), "give sender or receiver"),
                (lambda: boundary.step(0.52), "less than 0.52"),
                (lambda: boundary.follow(2 * A), "off the manifold")):
            with self.assertRaisesRegex(truestep.Error, text):
                call()
        self.assertEqual(boundary.state.steps, 0)  # and it is between two steps: nothing has come back
        self.assertFalse(boundary.part("sender").any() or boundary.part("receiver").any())

    def test_in_the_middle_of_a_step(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS, anchors="two", state=TABLES)
        first = through(boundary, 1)
        with self.assertRaisesRegex(truestep.Error, "a step is in progress"):
            _ = boundary.state
        with self.assertRaisesRegex(truestep.Error, "has been the receiver too"):
            boundary.step(0.1, first["receiver"])
        boundary.forget()
        boundary.decompress_backward(first["Z"], first["Xhat"], some_ids(1))
        with self.assertRaisesRegex(truestep.Error, "0 micro-batches have come back through the sender and 1 through the receiver"):
            boundary.step(0.1)
        boundary.forget()
        again = through(boundary, 1)
        self.assertEqual([m.tobytes() for m in first.values()], [m.tobytes() for m in again.values()])


if __name__ == "__main__":
    unittest.main()
