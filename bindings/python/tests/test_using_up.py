"""A step that may write into its gradient, over NumPy and a communicator written in Python."""

import queue
import unittest

import needs

needs.numpy()
import numpy as np  # noqa: E402
import truestep  # noqa: E402
from test_scape import STEPS, Queues, gradients, in_threads, made_up, make_problem  # noqa: E402


class UsingUp(unittest.TestCase):
    def test_the_bits_of_the_reference_wherever_the_gradient_stands(self) -> None:
        """In its place, in part, elsewhere, and where a rank's is refused in between: over Python's own communicator."""
        problem, start = make_problem(3), made_up(1)
        reference = truestep.reference.Reference(problem, start)
        queues: list[list["queue.Queue[bytes]"]] = [[queue.Queue() for _ in range(3)] for _ in range(3)]
        right = []
        for step in range(STEPS):
            reference.step(gradients(3, step), 0.01)
            right.append((reference.parameters.tobytes(), [reference.residual(rank).tobytes() for rank in range(3)]))

        def take(optimizer: truestep.Optimizer, given: np.ndarray, way: int) -> None:
            room = optimizer.gradient
            if way == 0:
                room[:] = given
                optimizer.step_using_up(room, 0.01)
            elif way == 1:
                room[:40], room[40:] = given[:40], np.nan
                optimizer.step_using_up([room[:40], given[40:]], 0.01)
            else:
                optimizer.step_using_up(given, 0.01)

        def run(rank: int) -> None:
            with truestep.Optimizer(problem, start, Queues(rank, queues)) as optimizer:
                for step in range(STEPS):
                    given = gradients(3, step)[rank]
                    bad = given.copy()
                    bad[7] = np.inf if rank == 2 else bad[7]
                    with self.assertRaisesRegex(truestep.RefusedStep, "gradient of rank 2, tensor embed, index 7"):
                        take(optimizer, bad, (step + rank) % 3)
                    take(optimizer, given, (step + rank + 1) % 3)
                    self.assertEqual(optimizer.parameters.tobytes(), right[step][0])
                    self.assertEqual(optimizer.residual.tobytes(), right[step][1][rank])
        in_threads(3, run)


if __name__ == "__main__":
    unittest.main()
