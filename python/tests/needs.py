"""A test that needs what is not there is skipped: status 77, and the reason in one line."""

import importlib
import sys


def _module(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(f"SKIPPED: {sys.executable} has no {name} ({error}); ci/torch makes an environment that has")
        sys.exit(77)


def numpy() -> None:
    _module("numpy")


def torch() -> None:
    _module("numpy")
    _module("torch")
