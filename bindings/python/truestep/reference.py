"""The reference: all ranks in lockstep, in the specification's order and arithmetic; slow and right."""

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _library, _values
from ._problem import Problem
from ._values import Floats, Mask


class Reference:
    """SCAPE, or AdamS (algorithm="adams"), for all the problem's workers at once.

        reference = truestep.reference.Reference(problem, parameters)
        reference.step([gradient_of_rank_0, gradient_of_rank_1], 0.01)
        reference.parameters
    """

    def __init__(self, problem: Problem, parameters: Any) -> None:
        self.problem = problem
        given, count = _values.pieces(parameters, "parameters")
        self._handle = _library.Handle("reference", problem._handle.pointer, given, count)

    def step(self, gradients: Sequence[Any], learning_rate: float) -> None:
        """One gradient a rank. Raises RefusedStep with nothing changed."""
        given, count = _values.pieces(list(gradients), "gradients")
        _library.call("reference_step", self._handle.pointer, given, count, _values.rate(learning_rate))

    def _view(self, what: int, rank: int = 0) -> _library.Values:
        view = _library.Values()
        _library.call("reference_view", self._handle.pointer, what, _library.whole(rank, "rank"), ctypes.byref(view))
        return view

    def _floats(self, what: int, rank: int = 0) -> Floats:
        return _values.look(self._handle, self._view(what, rank)).copy()

    def _mask(self, what: int) -> Mask:
        return _values.copy_mask(self._view(what), self.problem.size)

    @property
    def parameters(self) -> Floats:
        return self._floats(_library.PARAMETERS)

    @property
    def first_moment(self) -> Floats:
        return self._floats(_library.FIRST_MOMENT)

    def residual(self, rank: int) -> Floats:
        return self._floats(_library.RESIDUAL, rank)

    @property
    def mask(self) -> Mask:
        """Of the last step, a bool a coordinate."""
        return self._mask(_library.MASK)

    @property
    def next_mask(self) -> Mask:
        return self._mask(_library.NEXT_MASK)

    def local(self, rank: int) -> Floats:
        """c of the last step: b1*m + (1-b1)*g + e."""
        return self._floats(_library.LOCAL, rank)

    @property
    def exchanged(self) -> Floats:
        """The mean M of the last step before clipping."""
        return self._floats(_library.EXCHANGED)

    @property
    def reconstructed(self) -> Floats:
        """The mean gradient that the last step reconstructed, before clipping."""
        return self._floats(_library.RECONSTRUCTED)
