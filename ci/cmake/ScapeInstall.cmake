# What a user links: the sharded implementation, without the reference and the verifying side. And the tool.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS scape_problem scape_storage scape_communicator scape_kernels scape_distributed EXPORT scapeTargets)
install(DIRECTORY problem/include/ distributed/communicator/include/ distributed/kernels/include/ distributed/scape/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
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
configure_file(ci/cmake/scape.pc.in ${CMAKE_CURRENT_BINARY_DIR}/scape.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/scape.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
