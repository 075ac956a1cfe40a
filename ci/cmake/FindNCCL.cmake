# NCCL, the library of collectives for GPUs: the target NCCL::nccl, NCCL_VERSION and NCCL_LIBRARY.
#
# Looked for in TRUESTEP_NCCL_ROOT, if that is given, and nowhere else then: a folder with include/nccl.h and lib/libnccl.so*
# or lib/libnccl_static.a. Otherwise in the CUDA toolkit, in the system, and in the folder of Python's package
# nvidia.nccl, as the python3 on the PATH sees it. The shared library comes first; what links it gets its place as rpath.
set(TRUESTEP_NCCL_ROOT "" CACHE PATH "where NCCL is, if not where it is looked for: holds include/nccl.h and lib/libnccl.so*")

# Another root than the last time: look again.
if(NOT "${NCCL_ROOT_BEFORE}" STREQUAL "${TRUESTEP_NCCL_ROOT}")
  unset(NCCL_INCLUDE_DIR CACHE)
  unset(NCCL_LIBRARY CACHE)
endif()
set(NCCL_ROOT_BEFORE "${TRUESTEP_NCCL_ROOT}" CACHE INTERNAL "")

# A Python package has no libnccl.so, only the name with the version.
set(nccl_names nccl libnccl.so.2 nccl_static)
macro(truestep_look_for_nccl)
  find_path(NCCL_INCLUDE_DIR nccl.h PATH_SUFFIXES include ${ARGN})
  find_library(NCCL_LIBRARY NAMES ${nccl_names} PATH_SUFFIXES lib lib64 ${ARGN})
endmacro()
if(TRUESTEP_NCCL_ROOT)
  truestep_look_for_nccl(PATHS ${TRUESTEP_NCCL_ROOT} NO_DEFAULT_PATH)
else()
  truestep_look_for_nccl(HINTS ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_DIR})
  if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    # From one place or not at all: a header and a library of two versions would not fit.
    unset(NCCL_INCLUDE_DIR CACHE)
    unset(NCCL_LIBRARY CACHE)
    execute_process(
      COMMAND python3 -c "import importlib.util as u; s = u.find_spec('nvidia.nccl'); print(*(s.submodule_search_locations if s else []), sep=';')"
      OUTPUT_VARIABLE nccl_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(nccl_python)
      truestep_look_for_nccl(PATHS ${nccl_python} NO_DEFAULT_PATH)
    endif()
  endif()
endif()

set(NCCL_VERSION "")
if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_lines REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
  set(nccl_numbers "")
  foreach(line IN LISTS nccl_lines)
    string(REGEX MATCH "[0-9]+$" number "${line}")
    list(APPEND nccl_numbers ${number})
  endforeach()
  list(JOIN nccl_numbers "." NCCL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  if(NCCL_LIBRARY MATCHES "\\.a$")
    find_package(Threads REQUIRED)
    add_library(NCCL::nccl STATIC IMPORTED)
    target_link_libraries(NCCL::nccl INTERFACE CUDA::cudart_static Threads::Threads ${CMAKE_DL_LIBS} rt)
  else()
    add_library(NCCL::nccl SHARED IMPORTED)
    set_target_properties(NCCL::nccl PROPERTIES IMPORTED_SONAME libnccl.so.2)
  endif()
  set_target_properties(NCCL::nccl PROPERTIES
    IMPORTED_LOCATION ${NCCL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
