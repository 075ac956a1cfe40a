# The first that has PyTorch: Debian's may stand behind another. It is looked for again at each configuration, for ci/check builds before
# ci/test has installed one; -DTRUESTEP_PYTHON=... settles it.
if(NOT DEFINED CACHE{TRUESTEP_PYTHON})
  set(TRUESTEP_PYTHON python3)
  foreach(candidate /usr/bin/python3 python3)
    execute_process(COMMAND ${candidate} -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
      RESULT_VARIABLE has_no_torch OUTPUT_QUIET ERROR_QUIET)
    if(has_no_torch EQUAL 0)
      set(TRUESTEP_PYTHON ${candidate})
    endif()
  endforeach()
endif()
