# `cmake --install`: the program, the public headers, the library as one static file for each rung, and what
# find_package(pagoda) needs. A program links pagoda::pagoda and sees include/pagoda alone.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(rungs base tensor device quant kernels io text kv sched model runtime engine api)
list(TRANSFORM rungs PREPEND pagoda_)
set_target_properties(pagoda_api PROPERTIES EXPORT_NAME pagoda)
target_include_directories(pagoda_api INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/pagoda)
install(TARGETS pagoda RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${rungs} pagoda_options EXPORT pagoda ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY include/pagoda DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT pagoda FILE pagoda-targets.cmake NAMESPACE pagoda:: DESTINATION ${package_folder})
configure_package_config_file(cmake/pagoda-config.cmake.in ${CMAKE_BINARY_DIR}/pagoda-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/pagoda-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/pagoda-config.cmake ${CMAKE_BINARY_DIR}/pagoda-config-version.cmake
  DESTINATION ${package_folder})
