"""Z as indices of codewords over NumPy: beside the witness (fixtures/mapl/independent), two boundaries beside one; what is wrong is told."""

import dataclasses
import unittest
from typing import Any

import needs

needs.numpy()
import numpy as np  # noqa: E402
import truestep  # noqa: E402
from truestep.mapl import Boundary, State  # noqa: E402
from test_mapl import IDS, made_up, some_ids, witness  # noqa: E402

WIDTH, RANK, TOKENS = 8, 4, 24
CODED: dict[str, Any] = {"codewords": 6, "groups": 2, "rounds": 2, "subsets": 3, "decay": 0.75}
BOOKS, BITS = 4, 3
MESSAGE = (TOKENS * BOOKS * BITS + 7) // 8 + 4 * BOOKS * 2 * 2


def indices_of(message: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(message, bitorder="little")[:TOKENS * BOOKS * BITS].reshape(TOKENS, BOOKS, BITS)
    return bits @ np.array([1, 2, 4])


def z_of(seed: int) -> np.ndarray:
    return made_up(seed, TOKENS, RANK)


class Messages(unittest.TestCase):
    def differing(self, arithmetic: str, mistake: str = "") -> set[str]:
        """What of several turns is not the witness's, which is in double: no value is near enough to a tie for that to matter."""
        boundary = Boundary(WIDTH, RANK, IDS, arithmetic=arithmetic, seed=5, **CODED)
        first = boundary.state.codebooks.astype(np.float64).reshape(2, 2, 6, 2)
        here, ahead = first.copy(), first.copy()
        of = {"groups": 2, "rounds": 2, "codewords": 6, "subsets": 3, "decay": 0.7 if mistake == "decay" else 0.75}
        found = set()
        for batch in range(8):
            z = z_of(batch)
            message, decoded = boundary.encode(z[:, ::-1].copy() if mistake == "columns" else z)
            indices, wanted = witness.quantized(z.astype(np.float64), here, ahead, of, batch, 6 if mistake == "seed" else 5)
            came = boundary.decode(message, TOKENS, version=None)
            self.assertEqual((message.size, came.tobytes()), (MESSAGE, decoded.tobytes()))
            if not np.array_equal(indices_of(message), indices):
                found.add("indices")
            if np.abs(came - wanted).max() > 1e-6:
                found.add("z")
        state = boundary.state
        self.assertEqual((state.micro_batches, state.codebooks.shape), (8, (4, 6, 2)))
        for name, values in (("codebooks", here), ("learned", ahead)):
            if np.abs(getattr(state, name).ravel() - values.ravel()).max() > 1e-6:
                found.add(name)
        return found

    def test_both_forms_have_those_of_the_witness(self) -> None:
        for arithmetic in ("optimized", "reference"):
            self.assertEqual(self.differing(arithmetic), set())

    def test_a_mistake_is_seen(self) -> None:
        self.assertEqual(self.differing("optimized", "columns"), {"indices", "z", "codebooks", "learned"})
        self.assertIn("learned", self.differing("optimized", "decay"))
        self.assertIn("codebooks", self.differing("optimized", "seed"))

    def test_bytes_are_those_of_the_formula(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS, **CODED)
        self.assertEqual([boundary.message_bytes(n) for n in (0, 1, TOKENS)], [64, 66, MESSAGE])
        self.assertEqual(Boundary(WIDTH, RANK, IDS).message_bytes(TOKENS), 0)
        for arithmetic in ("optimized", "reference"):
            message, decoded = boundary_with(arithmetic=arithmetic).encode(np.empty((0, RANK), np.float32))
            self.assertEqual((message.size, decoded.shape), (64, (0, RANK)))
            self.assertEqual(boundary_with(arithmetic=arithmetic).decode(message, 0).shape, (0, RANK))
        self.assertEqual(Boundary(WIDTH, RANK, IDS, codewords=1).message_bytes(TOKENS), 4 * RANK)


def carry(sender: Boundary, receiver: Boundary, seed: int, mistake: str = "") -> None:
    """A micro-batch over a message, which a mistake of the caller may lose."""
    x, g, ids = made_up(seed, TOKENS, WIDTH), made_up(seed + 1, TOKENS, WIDTH), some_ids(seed, TOKENS)
    z, q = sender.compress(x, ids)
    version = sender.version("sender")
    message, decoded = sender.encode(z)
    came = decoded if mistake == "not decoded" else receiver.decode(message, TOKENS, version=version)
    receiver.decompress(came, ids)
    sender.compress_backward(q, receiver.decompress_backward(z if mistake == "z" else came, g, ids), ids)


def train(sender: Boundary, receiver: Boundary, steps: range, mistake: str = "") -> bytes:
    for step in steps:
        for micro in range(2):
            carry(sender, receiver, 100 * step + 10 * micro, mistake)
        if sender is receiver:
            sender.step(0.1)
        else:
            sender.step(0.1, receiver.part("receiver"))
            receiver.follow(sender.subspace)
    return sender.subspace.tobytes() + sender.state.codebooks.tobytes() + receiver.state.codebooks.tobytes() + sender.state.learned.tobytes()


def boundary_with(state: State | None = None, **settings: Any) -> Boundary:
    return Boundary(WIDTH, RANK, IDS, state=state, **(CODED | settings))


class Steps(unittest.TestCase):
    def test_two_boundaries_are_one(self) -> None:
        for settings in ({}, {"arithmetic": "reference"}, {"payload": "bf16", "order": "momentum_first"}):
            one = boundary_with(**settings)
            wanted = train(one, one, range(4))
            self.assertEqual(train(boundary_with(**settings), boundary_with(**settings), range(4)), wanted)
            self.assertNotEqual(train(boundary_with(**settings), boundary_with(**settings), range(4), "z"), wanted)

    def test_one_process_needs_no_message(self) -> None:
        one, other = boundary_with(), boundary_with()
        self.assertEqual(train(one, one, range(3), "not decoded"), train(other, other, range(3)))

    def test_a_state_goes_on(self) -> None:
        one = boundary_with()
        train(one, one, range(2))
        saved = one.state
        self.assertEqual(saved.micro_batches, 4)
        wanted = train(one, one, range(2, 4))
        later = boundary_with(saved)
        self.assertEqual(train(later, later, range(2, 4)), wanted)
        for lost in ({"micro_batches": 0}, {"learned": saved.codebooks}, {"codebooks": saved.learned}):
            other = boundary_with(dataclasses.replace(saved, **lost))
            self.assertNotEqual(train(other, other, range(2, 4)), wanted, lost)


class Told(unittest.TestCase):
    def test_what_is_wrong(self) -> None:
        boundary, plain = boundary_with(), Boundary(WIDTH, RANK, IDS)
        message, _ = boundary.encode(z_of(1))
        books = boundary.state.codebooks
        books[1, 0] = 1
        for call, text in (
                (lambda: boundary.decode(message[:-1], TOKENS), f"message: it has {MESSAGE - 1} bytes; {TOKENS} tokens of this boundary make it {MESSAGE}"),
                (lambda: boundary.decode(message, TOKENS, version=boundary.version("sender")), "of other codebooks than this side has before its micro-batch 0"),
                (lambda: boundary.decode(message.view(np.int8), TOKENS), "message: it is int8 in 1 dimensions"),
                (lambda: boundary.decode(message, -1), "tokens is -1"),
                (lambda: boundary.decode(np.full_like(message, 255), TOKENS), "message: token 0 has the index 7; there are 6 codewords"),
                (lambda: boundary.encode(z_of(1)[0]), r"z: its shape is \(4,\); give a matrix"),
                (lambda: boundary.encode(z_of(1)[:, :2].copy()), r"z: its shape is \(24, 2\); give \(24, 4\)"),
                (lambda: boundary.encode(np.full_like(z_of(1), np.nan)), "z has a value that is not finite"),
                (lambda: plain.encode(z_of(1)), "encode: the boundary has codewords=0"),
                (lambda: plain.decode(message, TOKENS), "decode: the boundary has codewords=0"),
                (lambda: boundary.version("both"), "give sender or receiver"),
                (lambda: boundary_with(State(codebooks=books)), "the first codeword of book 1 is not 0"),
                (lambda: boundary_with(State(learned=books[:1])), "learned: it has 12 values; there are 48 values of 4 books of 6 codewords of 2"),
                (lambda: boundary_with(codewords=7), "subsets is 3; it must divide the codewords, which are 7"),
                (lambda: Boundary(WIDTH, RANK, IDS, rounds=2), "codewords is 0, and there are settings of quantization")):
            with self.assertRaisesRegex(truestep.Error, text):
                call()
        self.assertEqual(boundary.state.micro_batches, 1)
        self.assertEqual(boundary.decode(bytes(message), TOKENS).shape, (TOKENS, RANK))


if __name__ == "__main__":
    unittest.main()
