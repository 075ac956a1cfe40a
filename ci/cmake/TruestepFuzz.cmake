# Fuzzing with clang's libFuzzer (preset `fuzz`, ci/fuzz). The targets are built by name; the rest of the tree need not.
option(TRUESTEP_FUZZ "instrument for libFuzzer and define the fuzz targets" OFF)
if(NOT TRUESTEP_FUZZ)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "truestep: TRUESTEP_FUZZ needs clang, this is ${CMAKE_CXX_COMPILER_ID}; use the preset fuzz")
endif()

# Everything is instrumented; which sanitizers judge it is TRUESTEP_SANITIZE's to say. The main program of libFuzzer comes
# with the targets alone.
target_compile_options(truestep_options INTERFACE -fsanitize=fuzzer-no-link)

# truestep_add_fuzzer(NAME name SOURCES files LIBRARIES targets)
# One fuzz target. Its seeds stand in fixtures/fuzz/<name>/, its dictionary in fixtures/fuzz/<name>.dict.
function(truestep_add_fuzzer)
  cmake_parse_arguments(FUZZER "" "NAME" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${FUZZER_NAME} EXCLUDE_FROM_ALL ${FUZZER_SOURCES})
  target_link_libraries(${FUZZER_NAME} PRIVATE ${FUZZER_LIBRARIES} truestep_options)
  target_link_options(${FUZZER_NAME} PRIVATE -fsanitize=fuzzer)
endfunction()

# `ci/fuzz --self-test` has to find its bug.
truestep_add_fuzzer(NAME planted_fuzz SOURCES ci/planted_fuzz.cpp LIBRARIES truestep_options)
