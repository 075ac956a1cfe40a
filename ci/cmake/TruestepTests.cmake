include(GoogleTest)

# Leaves the file that calls this where libtruestep alone is built, as for Python's package: the rest of the file needs libraries that only
# tests have.
macro(truestep_tests_from_here)
  if(TRUESTEP_LIBRARY_ONLY)
    return()
  endif()
endmacro()

# truestep_add_tests(NAME name LABEL quick|full SOURCES files LIBRARIES targets [APART files] [DEFINITIONS ...])
# Adds a test program, each of whose cases is a ctest of that label. Files under APART use names that clash with those of the other files, so
# they are not compiled in one piece with them.
function(truestep_add_tests)
  cmake_parse_arguments(TEST "" "NAME;LABEL" "SOURCES;APART;LIBRARIES;DEFINITIONS" ${ARGN})
  add_executable(${TEST_NAME} ${TEST_SOURCES} ${TEST_APART})
  set_source_files_properties(${TEST_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${TEST_NAME} PRIVATE ${TEST_LIBRARIES} GTest::gmock GTest::gtest_main truestep_options)
  target_compile_definitions(${TEST_NAME} PRIVATE ${TEST_DEFINITIONS})
  truestep_cold(${TEST_NAME} tests)
  set_target_properties(${TEST_NAME} PROPERTIES TRUESTEP_LABEL "${TEST_LABEL}")
  gtest_discover_tests(${TEST_NAME} TEST_PREFIX ${TEST_NAME}. DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${TEST_LABEL} TIMEOUT 600)
endfunction()

# truestep_add_quick_target(folders): adds a target `quick`. It builds all programs except those in the given folders and tests of other labels.
# The folders may have tests of label full only: `ci/test quick` builds this target alone, and its tests must find what they run.
function(truestep_add_quick_target)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/)
  set(folders ${PROJECT_SOURCE_DIR})
  add_custom_target(quick)
  while(folders)
    list(POP_FRONT folders folder)
    get_property(inner DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    list(REMOVE_ITEM inner ${ARGN})
    list(REMOVE_ITEM targets quick)
    list(APPEND folders ${inner})
    foreach(target IN LISTS targets)
      get_target_property(left_out ${target} EXCLUDE_FROM_ALL)
      get_target_property(type ${target} TYPE)
      get_target_property(label ${target} TRUESTEP_LABEL)
      if(NOT left_out AND NOT type MATCHES "^(INTERFACE|STATIC|OBJECT)_LIBRARY$" AND (NOT label OR label STREQUAL "quick"))
        add_dependencies(quick ${target})
      endif()
    endforeach()
  endwhile()
endfunction()
