"""The errors of libtruestep's calls, as exceptions."""


class Error(Exception):
    """Bad input or an impossible setting. One line: what, where, and what to do."""


class RefusedStep(Error):
    """A gradient is not finite, or above 2^56: refused on all ranks, nothing has changed, the next good step works."""


class Halted(Error):
    """A parameter has turned non-finite: no further step until a state is restored."""


class Aborted(Error):
    """A rank has failed or not answered in time: no rank takes another step."""


class InternalError(Error):
    """No memory, or a bug of truestep's."""


BY_STATUS = {1: Error, 2: RefusedStep, 3: Halted, 4: Aborted}
