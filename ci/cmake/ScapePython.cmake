# The first that has PyTorch: Debian's may stand behind another.
if(NOT DEFINED CACHE{SCAPE_PYTHON})
  set(found python3)
  foreach(candidate /usr/bin/python3 python3)
    execute_process(COMMAND ${candidate} -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
      RESULT_VARIABLE has_no_torch OUTPUT_QUIET ERROR_QUIET)
    if(has_no_torch EQUAL 0)
      set(found ${candidate})
    endif()
  endforeach()
  set(SCAPE_PYTHON ${found} CACHE STRING "the Python of tests in Python")
endif()
