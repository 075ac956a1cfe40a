# How everything here is compiled. `truestep_options` is linked by every target of ours.
set(TRUESTEP_SANITIZE "" CACHE STRING "sanitizers, as for -fsanitize=")
option(TRUESTEP_COVERAGE "instrument for clang's source-based coverage" OFF)
option(TRUESTEP_WARNINGS_AS_ERRORS "turn warnings into errors" ON)

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  message(FATAL_ERROR "truestep: compiler ${CMAKE_CXX_COMPILER_ID} is not known; use GCC 12 or Clang 14, or later")
endif()

add_library(truestep_options INTERFACE)
target_compile_features(truestep_options INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)

# Section 5 of the specification: no contraction into fused multiply-add. (GCC's default contracts wherever the
# target has the instruction.) Nothing that is compared is ever compiled with -ffast-math.
target_compile_options(truestep_options INTERFACE -ffp-contract=off)

# What a shared library is made of stands at any address, and headers are precompiled once for all. Nobody replaces our functions by
# their own, so they may be inlined as ever.
target_compile_options(truestep_options INTERFACE -fPIC $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)

# Instrumentation confuses the compilers' flow analysis; what is instrumented has been read by the plain builds.
if(NOT TRUESTEP_SANITIZE AND NOT TRUESTEP_COVERAGE)
  target_compile_options(truestep_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion -Wold-style-cast
    -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wcast-qual -Wformat=2 -Wundef
    $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op>
    $<$<BOOL:${TRUESTEP_WARNINGS_AS_ERRORS}>:-Werror>)
endif()

# GCC 12 and 13 see an overlap in their own std::string concatenation (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  target_compile_options(truestep_options INTERFACE -Wno-restrict)
endif()

if(TRUESTEP_SANITIZE)
  target_compile_options(truestep_options INTERFACE
    -fsanitize=${TRUESTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Checks of every pointer double the time that GCC takes to build. A null pointer or a dangling object ends under the address
  # sanitizer in any case; clang, which builds the readers for fuzzing, checks all.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND TRUESTEP_SANITIZE MATCHES "undefined")
    target_compile_options(truestep_options INTERFACE -fno-sanitize=null,alignment,vptr,object-size)
  endif()
  target_link_options(truestep_options INTERFACE -fsanitize=${TRUESTEP_SANITIZE})
endif()
if(TRUESTEP_COVERAGE)
  target_compile_options(truestep_options INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(truestep_options INTERFACE -fprofile-instr-generate)
endif()
