# What cpack makes of a build with LLVM inside: two archives that unpack into one folder, which runs wherever it is moved to.
#   minic-VERSION-linux-CPU.tar.gz         program, libraries, headers, Python package, examples, docs
#   minic-VERSION-linux-CPU-tests.tar.gz   test/: what is run on a machine with a GPU, all tests by test/run

install(DIRECTORY python/minic DESTINATION python COMPONENT python EXCLUDE_FROM_ALL PATTERN __pycache__ EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/test/gpu ${CMAKE_SOURCE_DIR}/test/python bench DESTINATION test COMPONENT tests
        EXCLUDE_FROM_ALL USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE PATTERN CMakeLists.txt EXCLUDE
        PATTERN check_wheel.py EXCLUDE)
install(PROGRAMS ${CMAKE_SOURCE_DIR}/test/bundle/run DESTINATION test COMPONENT tests EXCLUDE_FROM_ALL)
# Where the tests look for them, as in the source tree.
file(CREATE_LINK ${CMAKE_INSTALL_DATADIR}/minic/examples ${CMAKE_CURRENT_BINARY_DIR}/examples SYMBOLIC)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/examples DESTINATION . COMPONENT tests EXCLUDE_FROM_ALL)

# Parts of these packages are in the binaries; their licences want to be passed on.
foreach(package IN ITEMS llvm-22-dev libzstd-dev zlib1g-dev libcli11-dev nlohmann-json3-dev libgtest-dev libxxhash-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/minic/licenses RENAME ${package}
            COMPONENT licenses EXCLUDE_FROM_ALL)
  endif()
endforeach()

string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_FILE_NAME minic-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR})
set(CPACK_STRIP_FILES ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
set(CPACK_ARCHIVE_MAIN_FILE_NAME ${CPACK_PACKAGE_FILE_NAME})
set(CPACK_ARCHIVE_TESTS_FILE_NAME ${CPACK_PACKAGE_FILE_NAME}-tests)
set(CPACK_COMPONENTS_ALL compiler runtime python licenses tests)
include(CPack)
foreach(component IN ITEMS compiler runtime python licenses)
  cpack_add_component(${component} GROUP main)
endforeach()
