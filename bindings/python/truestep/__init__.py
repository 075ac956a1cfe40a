"""SCAPE for Python: check a recorded run, record one, step the reference or the sharded optimizer.

Everything is libtruestep's (bindings/c/include/truestep.h); this package holds no arithmetic. Arrays are NumPy's or PyTorch's, on the CPU,
fp32 or, of gradients, bf16; they are read where they stand. ``truestep.gasloc`` has GASLoC's worker and ``truestep.mapl`` MAPL's
boundary; ``truestep.torch`` has the optimizers as a ``torch.optim.Optimizer``, and the boundary as a ``torch.nn.Module``.
"""

from . import gasloc, mapl, reference
from ._communicator import Communicator, ThreadGroup
from ._errors import Aborted, Error, Halted, InternalError, RefusedStep
from ._library import version
from ._optimizer import Optimizer, Statistics
from ._problem import Problem, Tensor
from ._recorder import Recorder
from ._timeline import timeline
from ._verify import Phase, Result, Row, join, verify

__version__ = version()

__all__ = [
    "Aborted", "Communicator", "Error", "Halted", "InternalError", "Optimizer", "Phase", "Problem", "Recorder", "RefusedStep",
    "Result", "Row", "Statistics", "Tensor", "ThreadGroup", "join", "gasloc", "mapl", "reference", "timeline", "verify", "version",
]
