include(GoogleTest)

# Where libtruestep alone is built, for Python's package say, nothing that needs a test's libraries is: the rest of the file that says
# this is not read.
macro(truestep_tests_from_here)
  if(TRUESTEP_LIBRARY_ONLY)
    return()
  endif()
endmacro()

# truestep_add_tests(NAME name LABEL quick|full SOURCES files LIBRARIES targets [APART files] [DEFINITIONS ...])
# One test program; each of its cases is a ctest of that label. Files APART mean something else by a name than those beside them, and are
# never compiled in one piece with them.
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

# truestep_add_quick_target(folders): a target `quick`, which is all programs but those that stand in these folders or are tests of another label,
# and what they need. What stands in the folders has tests of label full alone: those of label quick find what they run where quick alone was
# built, as `ci/test quick` does.
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
