"""Prints which NCCL a program started here would find: TRUESTEP_NCCL_ROOT's, the system's, or that of Python's package. For ci/gpu-gate."""
import ctypes
import glob
import os
import sys

root = os.environ.get("TRUESTEP_NCCL_ROOT")
places = [*(glob.glob(f"{root}/lib*/libnccl.so*") if root else []), "libnccl.so.2",
          *(found for folder in sys.path for found in glob.glob(f"{folder}/nvidia/nccl/lib/libnccl.so*"))]
for place in places:
    try:
        version = ctypes.c_int()
        ctypes.CDLL(place).ncclGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        continue
    print(f"probe: NCCL {version.value}, {place}")
    break
else:
    print("probe: no NCCL; set TRUESTEP_NCCL_ROOT to its folder")
