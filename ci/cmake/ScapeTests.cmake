include(GoogleTest)

# scape_add_tests(NAME name LABEL quick|full SOURCES files LIBRARIES targets [ARGUMENTS ...])
# One test program; each of its cases is a ctest of that label.
function(scape_add_tests)
  cmake_parse_arguments(TEST "" "NAME;LABEL" "SOURCES;LIBRARIES;DEFINITIONS" ${ARGN})
  add_executable(${TEST_NAME} ${TEST_SOURCES})
  target_link_libraries(${TEST_NAME} PRIVATE ${TEST_LIBRARIES} GTest::gmock GTest::gtest_main scape_options)
  target_compile_definitions(${TEST_NAME} PRIVATE ${TEST_DEFINITIONS})
  scape_cold(${TEST_NAME} tests)
  gtest_discover_tests(${TEST_NAME} TEST_PREFIX ${TEST_NAME}. DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${TEST_LABEL} TIMEOUT 600)
endfunction()
