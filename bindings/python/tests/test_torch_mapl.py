"""truestep.torch.mapl in one process: the bits of libtruestep, gradients that PyTorch's gradcheck takes exactly, a subspace that learns."""

import io
import os
import tempfile
import unittest
import warnings
from typing import Any
from unittest import mock

import needs

needs.torch()
import numpy as np  # noqa: E402
import truestep  # noqa: E402
import truestep.torch.mapl  # noqa: E402
import torch  # noqa: E402
from truestep.torch.mapl import Boundary  # noqa: E402
from test_mapl import IDS, P, RANK, TABLES, TOKENS, WIDTH, dyadic, made_up, some_ids  # noqa: E402


def exact(anchors: str, **settings: Any) -> Boundary:
    """With matrices, tables and ids of few bits."""
    state = TABLES if anchors == "two" else truestep.mapl.State(subspace=TABLES.subspace, sender_rows=P if anchors != "none" else P[:0])
    boundary = Boundary(WIDTH, RANK, IDS, anchors=anchors, state=state, **settings)
    with torch.no_grad():
        for number, table in enumerate([*boundary.parameters(), *boundary.buffers()]):
            table.copy_(torch.from_numpy(dyadic(50 + number, IDS, RANK)))
    return boundary


def dyadic_leaf(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(dyadic(seed, *shape)).requires_grad_()


def ids_of(seed: int) -> torch.Tensor:
    return torch.from_numpy(some_ids(seed))


class Gradients(unittest.TestCase):
    def gradcheck(self, boundary: Boundary) -> None:
        """Both passes are linear in each of their inputs, so a difference quotient is exact over a step of any size: in fp32, on dyadic
        data, with a step of 1/2, nothing is rounded, and the tolerances are 0. A quotient in double could not be as strict."""
        ids = ids_of(3)
        for way, columns, side in ((boundary.send, WIDTH, "sender"), (boundary.receive, RANK, "receiver")):
            table = boundary._table(side)
            trained = () if table is None or not table.requires_grad else (table,)
            inputs = (dyadic_leaf(7, TOKENS, columns), *trained)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it is not in double
                # The table is changed where it stands.
                self.assertTrue(torch.autograd.gradcheck(lambda x, *_, way=way: way(x, ids), inputs, eps=0.5, atol=0.0, rtol=0.0))

    def test_they_are_exact(self) -> None:
        for anchors in ("none", "fixed", "shared", "two"):
            for arithmetic in ("optimized", "reference"):
                with self.subTest(anchors, arithmetic=arithmetic):
                    self.gradcheck(exact(anchors, arithmetic=arithmetic))

    def refused(self, name: str, wrong: Any) -> None:
        boundary = exact("two")
        with mock.patch.object(boundary.native, name, wrong(getattr(boundary.native, name))), self.assertRaisesRegex(Exception, "Jacobian mismatch"):
            self.gradcheck(boundary)

    def test_a_mistake_is_no_gradient(self) -> None:
        a = TABLES.subspace

        def transposed(_: Any) -> Any:
            return lambda z, g, ids, table, step: np.ascontiguousarray(g.numpy() @ a.reshape(RANK, WIDTH).T)

        def without_basis(right: Any) -> Any:
            return lambda q, dz, ids, table, step: right(q, dz, ids, table, step=step) * np.float32(0.5)

        def overwritten(right: Any) -> Any:
            def wrong(q: Any, dz: Any, ids: Any, table: Any, step: int) -> Any:
                dx = right(q, dz, ids, None, step=step)
                if table is not None:
                    table[ids] = torch.from_numpy(-dx @ P.T)  # where an id repeats the last one stays
                return dx
            return wrong

        def anchor_not_added(right: Any) -> Any:
            return lambda z, ids, anchor: right(z, ids, 0 * anchor.detach())
        for name, wrong in (("decompress_backward", transposed), ("compress_backward", without_basis), ("compress_backward", overwritten),
                            ("decompress", anchor_not_added)):
            self.refused(name, wrong)

    def test_they_have_the_bits_of_libtruestep(self) -> None:
        boundary = exact("two")
        native = truestep.mapl.Boundary(WIDTH, RANK, IDS, anchors="two", state=TABLES)
        x, g, ids = made_up(1, TOKENS, WIDTH), made_up(2, TOKENS, WIDTH), some_ids(3)
        sent = torch.from_numpy(x).requires_grad_()
        z = boundary.send(sent, torch.from_numpy(ids))
        z.retain_grad()
        xhat = boundary.receive(z, torch.from_numpy(ids))
        xhat.backward(torch.from_numpy(g))
        tables = [p.detach().numpy() for p in (boundary.sender_anchor, boundary.receiver_anchor)]
        sums = [np.zeros((IDS, RANK), np.float32) for _ in tables]
        native_z, q = native.compress(x, ids, tables[0])
        dz = native.decompress_backward(native_z, g, ids, sums[1])
        dx = native.compress_backward(q, dz, ids, sums[0])
        for mine, theirs in ((z, native_z), (xhat, native.decompress(native_z, ids, tables[1])), (z.grad, dz), (sent.grad, dx),
                             (boundary.sender_anchor.grad, sums[0]), (boundary.receiver_anchor.grad, sums[1])):
            self.assertEqual(mine.detach().numpy().tobytes(), theirs.tobytes())
        self.assertTrue(boundary.step(0.1) and native.step(0.1))
        self.assertEqual(boundary.subspace.numpy().tobytes(), native.subspace.tobytes())

    def test_the_subspace_learns_where_nothing_else_does(self) -> None:
        boundary = Boundary(WIDTH, RANK)
        ids = torch.zeros(TOKENS, dtype=torch.int64)
        xhat = boundary.receive(boundary.send(torch.from_numpy(made_up(1, TOKENS, WIDTH)), ids), ids)
        xhat.sum().backward()
        self.assertTrue(boundary.native.part("sender").any() and boundary.native.part("receiver").any())
        with torch.no_grad():
            self.assertFalse(boundary.send(torch.zeros(TOKENS, WIDTH), ids).requires_grad)


CODED: dict[str, Any] = {"codewords": 6, "groups": 2, "rounds": 2, "subsets": 3}


class Codewords(unittest.TestCase):
    """In the place of z a message travels; the gradient goes straight through."""

    def pass_through(self, boundary: Boundary, x: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        z = boundary.send(x, ids_of(seed))
        assert boundary.message is not None
        return z, boundary.message

    def test_they_have_the_bits_of_libtruestep(self) -> None:
        boundary, native = Boundary(WIDTH, RANK, IDS, **CODED), truestep.mapl.Boundary(WIDTH, RANK, IDS, **CODED)
        for step in range(2):
            x, g, ids = made_up(step, TOKENS, WIDTH), made_up(step + 7, TOKENS, WIDTH), some_ids(step)
            sent = torch.from_numpy(x).requires_grad_()
            z, message = self.pass_through(boundary, sent, step)
            came = boundary.decode(message, ids_of(step), version=native.version("sender"))
            self.assertTrue(came.requires_grad and came.is_leaf)
            boundary.receive(came, ids_of(step)).backward(torch.from_numpy(g))
            z.backward(came.grad)
            plain, q = native.compress(x, ids)
            wanted, decoded = native.encode(plain)
            dz = native.decompress_backward(native.decode(wanted, TOKENS), g, ids)
            dx = native.compress_backward(q, dz, ids)
            for mine, theirs in ((message, wanted), (z, decoded), (came, decoded), (came.grad, dz), (sent.grad, dx)):
                self.assertEqual(mine.detach().numpy().tobytes(), theirs.tobytes())
            self.assertTrue(boundary.step(0.1) and native.step(0.1))
            self.assertEqual(boundary.subspace.numpy().tobytes(), native.subspace.tobytes())

    def test_a_state_dict_goes_on_inside_a_turn(self) -> None:
        def train(boundary: Boundary, steps: range) -> bytes:
            for step in steps:
                x = torch.from_numpy(made_up(step, TOKENS, WIDTH))
                (boundary.receive(boundary.send(x, ids_of(step)), ids_of(step)) - x).square().sum().backward()
                boundary.step(0.1)
            return boundary.subspace.numpy().tobytes() + boundary.native.state.learned.tobytes() + boundary.native.state.codebooks.tobytes()
        boundary = Boundary(WIDTH, RANK, IDS, **CODED)
        train(boundary, range(2))
        file = io.BytesIO()
        torch.save(boundary.state_dict(), file)
        wanted = train(boundary, range(2, 5))
        file.seek(0)
        saved = torch.load(file)
        later = Boundary(WIDTH, RANK, IDS, **CODED)
        later.load_state_dict(saved)
        self.assertEqual(train(later, range(2, 5)), wanted)
        with self.assertRaisesRegex(truestep.Error, "of a boundary with .*'codewords': 6"):
            Boundary(WIDTH, RANK, IDS, codewords=6).load_state_dict(saved)
        self.assertNotIn("codewords", Boundary(WIDTH, RANK, IDS).state_dict()["_extra_state"]["settings"])  # one of before they were there fits

    def test_what_is_wrong_is_told(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS, **CODED)
        _, message = self.pass_through(boundary, torch.zeros(TOKENS, WIDTH), 1)
        self.assertEqual((message.dtype, message.numel()), (torch.uint8, boundary.message_bytes(TOKENS)))
        for call, text in ((lambda: boundary.decode(message[1:], ids_of(1)), "message: it has .* bytes; 6 tokens"),
                           (lambda: boundary.decode(message.float(), ids_of(1)), "message: it is float32"),
                           (lambda: Boundary(WIDTH, RANK, IDS, rounds=2), "codewords is 0"),
                           (lambda: boundary.decode(message, ids_of(1), version=1), "of other codebooks")):
            with self.assertRaisesRegex(truestep.Error, text):
                call()


class Recorded(unittest.TestCase):
    """`truestep verify` of what the recorder has seen, and of the same with a mistake."""

    def train(self, boundary: Boundary, steps: int = 3, saved: Any = None) -> truestep.torch.mapl.Recorder:
        recorder = truestep.torch.mapl.Recorder(boundary)
        if saved is not None:
            boundary.load_state_dict(saved)
        optimizer = torch.optim.SGD(boundary.parameters(), lr=0.1) if any(True for _ in boundary.parameters()) else None
        for step in range(steps):
            boundary.zero_grad()
            for micro in range(2):
                x = torch.from_numpy(made_up(10 * step + micro, TOKENS, WIDTH)).requires_grad_()
                xhat = boundary.receive(boundary.send(x, ids_of(step)), ids_of(step))
                (xhat.tanh() - x).square().sum().backward()  # x has a gradient of its own besides
            boundary.step(0.1)
            if optimizer is not None:
                optimizer.step()
        return recorder

    def verified(self, recorder: truestep.torch.mapl.Recorder) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            recorder.write(path)
            return truestep.verify(path, level="rel")

    def test_a_run_is_right(self) -> None:
        for anchors in ("none", "fixed", "shared", "two"):
            for settings in ({"payload": "fp32"}, {"payload": "bf16"}, CODED):
                with self.subTest(anchors, settings=settings):
                    boundary = Boundary(WIDTH, RANK, IDS, anchors=anchors, **settings)
                    with torch.no_grad():
                        for table in [*boundary.parameters(), *boundary.buffers()]:
                            table.normal_()
                    result = self.verified(self.train(boundary))
                    self.assertTrue(result.passed, str(result))
                    self.assertGreater(result.phases.decompress_gradient.rows[0].compared, 0)

    def test_a_state_that_is_loaded_after_the_recorder_was_made_is_what_it_begins_with(self) -> None:
        for settings in ({}, CODED):
            old = Boundary(WIDTH, RANK, IDS, **settings)
            self.train(old)
            result = self.verified(self.train(Boundary(WIDTH, RANK, IDS, **settings), saved=old.state_dict()))
            self.assertTrue(result.passed, str(result))

    def test_a_mistake_is_told_where_it_is(self) -> None:
        for name, wrong, phase in (("compress_backward", lambda right: lambda *a, **k: right(*a, **k) * np.float32(1.01), "decompress_gradient"),
                                   ("decompress", lambda right: lambda *a: right(*a) + np.float32(0.01), "decompress")):
            boundary = Boundary(WIDTH, RANK, IDS)
            with mock.patch.object(boundary.native, name, wrong(getattr(boundary.native, name))):
                result = self.verified(self.train(boundary))
            self.assertFalse(result.passed)
            self.assertEqual(result.first_divergence["phase"], phase)

    def test_a_mistake_of_codewords_is_told_where_it_is(self) -> None:
        def first_index_is_another(right: Any) -> Any:
            def wrong(z: Any) -> Any:
                message, decoded = right(z)
                message[0] ^= 1
                return message, decoded
            return wrong

        def other_z(right: Any) -> Any:
            return lambda z: (right(z)[0], z.numpy())
        for wrong, phase in ((first_index_is_another, "encode"), (other_z, "decode")):
            boundary = Boundary(WIDTH, RANK, IDS, **CODED)
            with mock.patch.object(boundary.native, "encode", wrong(boundary.native.encode)):
                result = self.verified(self.train(boundary))
            self.assertEqual(result.first_divergence["phase"], phase)

    def test_what_cannot_be_recorded_is_told(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS)
        recorder = truestep.torch.mapl.Recorder(boundary)
        with self.assertRaisesRegex(truestep.Error, "no step has ended"):
            recorder.write("nowhere")
        boundary.receive(torch.zeros(TOKENS, RANK, requires_grad=True), ids_of(1))
        with self.assertRaisesRegex(truestep.Error, rf"of \[\] tokens were sent, and of \[{TOKENS}\] received"):
            boundary.step(0.1)
        boundary = Boundary(WIDTH, RANK, IDS)
        truestep.torch.mapl.Recorder(boundary)
        boundary.receive(boundary.send(torch.zeros(TOKENS, WIDTH), ids_of(1)), ids_of(1))
        with self.assertRaisesRegex(truestep.Error, "no gradient has come back"):
            boundary.step(0.1)


class AsAModule(unittest.TestCase):
    def loss(self, boundary: Boundary, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return (boundary.receive(boundary.send(x, ids), ids) - x).square().sum() / 2

    def test_it_finds_the_principal_subspace(self) -> None:
        x = torch.from_numpy(made_up(5, 40, WIDTH)) * 0.5 ** torch.arange(WIDTH)
        ids = torch.zeros(40, dtype=torch.int64)
        boundary = Boundary(WIDTH, RANK)
        start = self.loss(boundary, x, ids).item()
        for step in range(300):
            self.loss(boundary, x, ids).backward()
            boundary.step(0.1 / (1 + 0.05 * step))
        best = float(torch.linalg.svdvals(x)[RANK:].square().sum()) / 2
        self.assertGreater(start, 2 * best)
        self.assertLess(self.loss(boundary, x, ids).item(), 1.01 * best)

    def test_a_state_dict_goes_on_where_it_was_saved(self) -> None:
        def train(boundary: Boundary, steps: range) -> bytes:
            optimizer = torch.optim.SGD(boundary.parameters(), lr=0.1)
            for step in steps:
                optimizer.zero_grad()
                self.loss(boundary, torch.from_numpy(made_up(step, TOKENS, WIDTH)), ids_of(step)).backward()
                boundary.step(0.1)
                optimizer.step()
            return boundary.subspace.numpy().tobytes() + boundary.sender_anchor.detach().numpy().tobytes()
        boundary = Boundary(WIDTH, RANK, IDS, anchors="two")
        train(boundary, range(2))
        file = io.BytesIO()
        torch.save(boundary.state_dict(), file)
        wanted = train(boundary, range(2, 4))
        file.seek(0)
        saved = torch.load(file)
        later = Boundary(WIDTH, RANK, IDS, anchors="two")
        later.load_state_dict(saved)
        self.assertEqual(train(later, range(2, 4)), wanted)
        with self.assertRaisesRegex(truestep.Error, "of a boundary with .*'seed': 1"):
            Boundary(WIDTH, RANK, IDS, anchors="two", seed=2).load_state_dict(saved)

    def test_shapes_and_types_of_a_transformer(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS, anchors="shared")
        ids = ids_of(1).reshape(2, 3)
        x = torch.randn(2, 3, WIDTH).to(torch.bfloat16).requires_grad_()
        z = boundary.send(x, ids)
        xhat = boundary.receive(z, ids)
        self.assertEqual((z.shape, xhat.shape, xhat.dtype), ((2, 3, RANK), (2, 3, WIDTH), torch.float32))
        xhat.sum().backward()
        self.assertEqual((x.grad.dtype, boundary.anchor.grad.shape), (torch.bfloat16, (IDS, RANK)))
        self.assertEqual([name for name, _ in boundary.named_parameters()], ["anchor"])
        self.assertEqual(list(Boundary(WIDTH, RANK, IDS, anchors="fixed").parameters()), [])

    def test_what_is_wrong_is_told(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS)
        x, ids = torch.randn(TOKENS, WIDTH), ids_of(1)
        for call, text in ((lambda: boundary.send(x[:2], ids), r"the sender was given \(2, 8\) beside ids of \(6,\); give \(6, 8\)"),
                           (lambda: boundary.send(x.double(), ids), "float64"), (lambda: boundary.send(x, ids.float()), "float32 in 1 dimensions"),
                           (lambda: boundary.send(x, ids + 3), "the vocabulary is 3"), (lambda: boundary.send(x * float("nan"), ids), "not finite"),
                           (lambda: boundary.receive(torch.zeros(TOKENS, RANK), ids), r"z.requires_grad_\(\) before"),
                           (lambda: boundary.step(0.1, receiver=1, sender=0), "the other side alone"), (lambda: boundary.step(), "rate is missing"),
                           (lambda: boundary.step(0.6, receiver=1), "less than 0.52"), (lambda: boundary.step(-1), "at least 0"),
                           (lambda: Boundary(2, 3), "rank is 3; it must be from 1 to the width, which is 2")):
            with self.assertRaisesRegex(truestep.Error, text):
                call()

    def test_a_step_before_all_are_back_is_noticed(self) -> None:
        boundary = Boundary(WIDTH, RANK, IDS)
        late = self.loss(boundary, torch.randn(TOKENS, WIDTH), ids_of(1))
        boundary.step(0.1)
        with self.assertRaisesRegex(truestep.Error, "went forward at step 0, and A is that of step 1"):
            late.backward()

    def test_nobody_takes_a_second_derivative_for_zero(self) -> None:
        x = torch.randn(TOKENS, WIDTH, requires_grad=True)
        [dx] = torch.autograd.grad(Boundary(WIDTH, RANK, IDS).send(x, ids_of(1)).square().sum(), x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "once_differentiable"):
            dx.sum().backward()


if __name__ == "__main__":
    unittest.main()
