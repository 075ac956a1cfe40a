# What a build's commands cost: each goes through ci/tools/timed, and ci/compile-cost adds up what that notes.
option(TRUESTEP_TIMED "note the processor time of each command of the build in cost.log" OFF)
if(TRUESTEP_TIMED)
  foreach(kind COMPILE LINK CUSTOM)
    set_property(GLOBAL PROPERTY RULE_LAUNCH_${kind} "${CMAKE_SOURCE_DIR}/ci/tools/timed ${CMAKE_BINARY_DIR}/cost.log")
  endforeach()
endif()

# truestep_add_yardsticks(TARGETS): before each of them gtest-all.cc is compiled once. A shared machine changes its speed within minutes,
# so the unit of ci/compile-cost is taken during the build.
function(truestep_add_yardsticks)
  set(source /usr/src/googletest/googletest)
  if(TRUESTEP_TIMED AND EXISTS ${source}/src/gtest-all.cc)
    foreach(target IN LISTS ARGN)
      add_library(yardstick_${target} OBJECT EXCLUDE_FROM_ALL ${source}/src/gtest-all.cc)
      target_include_directories(yardstick_${target} PRIVATE ${source} ${source}/include)
      target_compile_options(yardstick_${target} PRIVATE -O2)
      add_dependencies(${target} yardstick_${target})
    endforeach()
  endif()
endfunction()
