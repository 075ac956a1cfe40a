# What a user links: the sharded implementation; and the gate, with the reference and the properties, for implementations
# of their own. And the tool.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(scape_gate_at_home INTERFACE)
target_link_libraries(scape_gate_at_home INTERFACE scape_properties)
set_target_properties(scape_gate_at_home PROPERTIES EXPORT_NAME gate)
set(installed_targets
  scape_problem scape_storage scape_trace scape_report reference_arithmetic scape_reference scape_communicator scape_kernels scape_distributed scape_verify
  scape_traces scape_gate scape_properties)
install(TARGETS ${installed_targets} scape_gate_at_home EXPORT scapeTargets)
foreach(target IN LISTS installed_targets)
  get_target_property(folder ${target} SOURCE_DIR)
  install(DIRECTORY ${folder}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
# NCCL may stand where no linker looks for it.
set_target_properties(scape PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS scape)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/scape)
install(EXPORT scapeTargets NAMESPACE scape:: DESTINATION ${package_folder})
configure_package_config_file(ci/cmake/scapeConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/scapeConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/scapeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/scapeConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/scapeConfigVersion.cmake
  DESTINATION ${package_folder})
set(package_requires "")
if(SCAPE_WITH_MPI)
  set(package_requires ompi-c)
endif()
foreach(package scape scape-gate)
  configure_file(ci/cmake/${package}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${package}.pc @ONLY)
endforeach()
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/scape.pc ${CMAKE_CURRENT_BINARY_DIR}/scape-gate.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
