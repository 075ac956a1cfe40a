# Headers from outside that most files that nobody waits for read: tests, and what a person types and sees. Parsing them was
# two fifths of a build's time (docs/decisions/build-and-ci.md).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(precompile ON)
else()
  set(precompile OFF)
endif()
option(TRUESTEP_PRECOMPILE "precompile the headers from outside for tests and tools" ${precompile})

# What was compiled before comes from ccache, where there is one. It has to be allowed to keep what was compiled with precompiled headers.
find_program(TRUESTEP_CCACHE ccache)
if(TRUESTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT TRUESTEP_TIMED)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_ctime,include_file_mtime
    ${TRUESTEP_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${TRUESTEP_CCACHE})
endif()

# What is not on the way of a step is compiled at -O1: nobody waits for it to run, and it is built in a third less time.
add_library(truestep_cold_options INTERFACE)
target_compile_options(truestep_cold_options INTERFACE $<$<CONFIG:Release>:-O1>)

# truestep_precompiled(NAME LIBRARIES targets HEADERS headers)
function(truestep_precompiled name)
  cmake_parse_arguments(PRECOMPILED "" "" "LIBRARIES;HEADERS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.cpp CONTENT "// Only for its headers.\n")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/generated/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${PRECOMPILED_LIBRARIES} truestep_cold_options truestep_options)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>) # as those that read it
  target_precompile_headers(${name} PRIVATE ${PRECOMPILED_HEADERS}
    <algorithm> <chrono> <filesystem> <fstream> <functional> <iostream> <map> <memory> <mutex> <numeric> <random> <set>
    <sstream> <string> <thread> <vector>)
endfunction()
if(TRUESTEP_PRECOMPILE)
  # Two, for GoogleTest's definitions are part of its headers. Eigen's too, and they come with the reference: not here. Nor CLI11's: its
  # objects at namespace scope make code in every file that they come to, 3 s of it in one that says nothing of a command line.
  truestep_precompiled(truestep_precompiled_tests LIBRARIES GTest::gmock GTest::gtest HEADERS <gmock/gmock.h> <gtest/gtest.h>)
  truestep_precompiled(truestep_precompiled_tools LIBRARIES nlohmann_json::nlohmann_json rapidcheck
    HEADERS <nlohmann/json.hpp> <rapidcheck.h>)
endif()

# truestep_larger_pieces(TARGET): its files are compiled sixteen at a time, which takes half as long from nothing, and longer after a change:
# who changes one file again and again configures with -DTRUESTEP_PRECOMPILE=OFF. GCC then takes a second gigabyte rather than an eighth of the time to collect its garbage
# (docs/decisions/build-and-ci.md).
function(truestep_larger_pieces target)
  # pip builds from nothing, without the headers of tests.
  if(TRUESTEP_PRECOMPILE OR (TRUESTEP_LIBRARY_ONLY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"))
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1000000>)
  endif()
endfunction()

# truestep_cold(TARGET tests|tools): none of its files is on the way of a step.
function(truestep_cold target kind)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:truestep_cold_options>)
  truestep_larger_pieces(${target})
  if(TRUESTEP_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM truestep_precompiled_${kind})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>) # for ccache
  endif()
endfunction()
