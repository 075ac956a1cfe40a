# What a build's commands cost: each goes through ci/tools/timed, and ci/compile-cost adds up what that notes.
option(TRUESTEP_TIMED "note the processor time of each command of the build in cost.log" OFF)
if(TRUESTEP_TIMED)
  foreach(kind COMPILE LINK CUSTOM)
    set_property(GLOBAL PROPERTY RULE_LAUNCH_${kind} "${CMAKE_SOURCE_DIR}/ci/tools/timed ${CMAKE_BINARY_DIR}/cost.log")
  endforeach()
endif()
