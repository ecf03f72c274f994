# Headers, the CMake package, examples, docs and what editors need. Component `runtime` is enough to link minic::runtime.

foreach(room IN LISTS runtime_rooms)
  if(EXISTS ${CMAKE_SOURCE_DIR}/include/minic/${room})
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/minic/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/minic COMPONENT runtime)
    list(APPEND elsewhere PATTERN minic/${room} EXCLUDE)
  endif()
endforeach()
if(EXISTS ${CMAKE_SOURCE_DIR}/include/minic-c)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/minic-c DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT runtime)
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/minic DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT compiler ${elsewhere})

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/minic)
configure_package_config_file(cmake/minicConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/minicConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/minicConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/minicConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/minicConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT runtime)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples ${CMAKE_SOURCE_DIR}/docs ${CMAKE_SOURCE_DIR}/tools/editors DESTINATION ${CMAKE_INSTALL_DATADIR}/minic
        COMPONENT compiler)
