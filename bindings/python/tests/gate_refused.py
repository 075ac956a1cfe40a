"""Wrong calls of libtruestep before those that the package makes, each with one bad argument, on all ranks or on one alone. truestep.h promises
of all of them that they say so in one line and change nothing: the gate's case has to go on as if they had not been."""

import contextlib
import ctypes
import json
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from gate_program import RANK, RANKS
from truestep import _library

NOWHERE = b"/dev/null/nowhere"  # no folder can be made there, even by root
WRONG_TEXTS = {"problem_create": b"nonsense=1", "gasloc_problem_create": b"nonsense=1", "mapl_boundary_create": b"nonsense=1",
               "recorder_add": b"nonsense", "gasloc_recorder_add": b"nonsense", "recorder_sample": b"nonsense",
               **{f"{kind}_{what}": NOWHERE for kind in ("optimizer", "gasloc_worker") for what in ("save", "load")},
               "recorder_write": NOWHERE, "gasloc_recorder_write": NOWHERE, "recorder_keep_in": NOWHERE}
# The library takes these calls: a problem of fewer tensors, defaults, one rank alone, a state to be made, results that are not needed, and a number of
# tokens whose message has as many bytes.
ACCEPTED = {*((f"{of}problem_create", place, how) for of in ("", "gasloc_") for place, how in ((1, "one less"), (3, "NULL"))),
            *(("mapl_boundary_" + name, place, "NULL") for name, place in (
                ("create", 1), ("compress", 5), ("encode", 4), ("compress_backward", 7), ("decompress_backward", 7), ("step", 2), ("step", 3),
                ("step_by", 3))),
            ("optimizer_create", 1, "NULL"), ("gasloc_worker_create", 1, "NULL"), ("gasloc_worker_step", 4, "NULL"),
            ("gasloc_worker_round", 1, "NULL"), ("recorder_held", 1, "NULL"), ("recorder_held", 2, "one less"),
            ("gasloc_recorder_begin_round", 2, "one less"), ("mapl_boundary_decode", 4, "one more")}
# All ranks call these together, and get an error together, too.
TOGETHER = ("optimizer_step", "optimizer_step_using_up", "optimizer_step_of_parts", "optimizer_bucket")

Wrong = tuple[int, str, object]  # which argument, in what way, and what is given instead
_without_wrong_steps = False
_begin = 0
_calls: Counter[str] = Counter()


def begin(settings: Any) -> int:
    """Counts anew, from a number that follows from the case: ranks agree on the next wrong call, and a case has the same ones again."""
    global _begin
    _begin = zlib.crc32(json.dumps(settings).encode())
    _calls.clear()
    return _begin


@contextlib.contextmanager
def without_wrong_steps() -> Iterator[None]:
    """For a step that counts: a wrong one before it would make its parts be forgotten."""
    global _without_wrong_steps
    _without_wrong_steps = True
    try:
        yield
    finally:
        _without_wrong_steps = False


def changed(entry: Any, **fields: object) -> Any:
    copy = type(entry).from_buffer_copy(entry)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def wrong_values(values: Any) -> Iterator[tuple[str, Any]]:
    if values.count > 1:  # none may mean that they are to be made
        yield "one too few", changed(values, count=values.count - 1)
    yield "fewer than none", changed(values, count=-1)
    yield "unknown type", changed(values, type=99)


def wrong_struct(name: str, entry: Any) -> Iterator[tuple[str, Any]]:
    yield "size 0", changed(entry, struct_size=0)
    if not name.endswith(("create", "restore")):
        return  # the others are filled in
    for field, kind in entry._fields_:
        value = getattr(entry, field)
        if kind is _library.Values and value.count > 0:
            yield from ((f"{field}, {how}", changed(entry, **{field: wrong})) for how, wrong in wrong_values(value))
        elif kind is ctypes.c_int64 and field != "micro_batches":  # which no state without codewords has
            yield f"{field} -1", changed(entry, **{field: -1})


def wrong_pointer(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    entry = getattr(value, "_obj", None)  # of byref
    if isinstance(entry, ctypes.Structure) and hasattr(entry, "struct_size"):
        yield from ((how, ctypes.byref(wrong)) for how, wrong in wrong_struct(name, entry))
    elif isinstance(value, ctypes.Array) and len(value) > 0:
        last, copy = len(value) - 1, type(value)
        if isinstance(value[last], _library.Values):
            wrongs = wrong_values(value[last])
        elif isinstance(value[last], _library.TensorEntry):
            wrongs = iter([("no name", changed(value[last], name=None)), ("size -1", changed(value[last], size=-1))])
        elif value._type_ is ctypes.c_double:
            wrongs = iter([("not a number", math.nan)])
        else:
            wrongs = iter([("beyond all", 1 << 40)] if value._type_ is ctypes.c_size_t else [])
        for how, wrong in wrongs:
            given = copy(*value)
            given[last] = wrong
            yield how, given


def wrong_ids(address: int, count: int) -> Iterator[tuple[str, object]]:
    for wrong in (-1, 1 << 40):
        ids = (ctypes.c_int64 * count).from_buffer_copy((ctypes.c_int64 * count).from_address(address))
        ids[count - 1] = wrong
        yield f"an id of {wrong}", ids


def wrong_arguments(name: str, kinds: list[Any], arguments: tuple[Any, ...]) -> Iterator[Wrong]:
    tokens = [value for kind, value in zip(kinds, arguments) if kind is ctypes.c_int64][-1:]
    for place, (kind, value) in enumerate(zip(kinds, arguments)):
        ways: list[tuple[str, object]] = []
        if kind is ctypes.c_double:
            ways = [("not a number", math.nan), ("infinite", math.inf)]
        elif kind in (ctypes.c_int32, ctypes.c_int64):
            ways = [("-1", -1)] if kind is ctypes.c_int32 else [("-1", -1), ("one more", value + 1)]
        elif kind is ctypes.c_char_p and value is not None:
            ways = [("NULL", None), ("wrong", WRONG_TEXTS[name])] if name in WRONG_TEXTS else [("NULL", None)]
        elif kind is ctypes.c_size_t:
            ways = [("one less", value - 1)] if value > 0 else []
        elif value is not None:
            nothing = place > 0 and (tokens == [0] if kind is ctypes.c_void_p else isinstance(value, ctypes.Array) and len(value) == 0)
            ways = [] if nothing else [("NULL", None)]
            if kind is not ctypes.c_void_p:
                ways += wrong_pointer(name, value)
            elif place > 2 and kinds[place + 1:place + 2] == [ctypes.c_int64] and arguments[place + 1] > 0:
                ways += wrong_ids(value, arguments[place + 1])
        yield from ((place, how, wrong) for how, wrong in ways if (name, place, how) not in ACCEPTED)


def before(name: str, function: Callable[..., int], kinds: list[Any]) -> Callable[..., int]:
    def called(*arguments: Any) -> int:
        wrongs = list(wrong_arguments(name, kinds, arguments))
        turn = _begin + _calls[name]
        _calls[name] += 1
        if wrongs:
            place, how, wrong = wrongs[turn % len(wrongs)]
            together = place > 0 and name in TOGETHER
            if not (together and _without_wrong_steps):
                alone = together and turn // len(wrongs) % 2 == 1 and turn % RANKS != RANK
                status = function(*arguments) if alone else function(*arguments[:place], wrong, *arguments[place + 1:])
                error = _library._library.truestep_last_error().decode()
                assert status in (1, 3) and error and "\n" not in error, f"{name}, argument {place}, {how}: status {status}, {error!r}"
        return function(*arguments)
    return called


def before_each_call() -> None:
    for name, kinds in _library._STATUS.items():
        short = name.removeprefix("truestep_")
        setattr(_library._library, name, before(short, getattr(_library._library, name), kinds))
