# LLVM for the CodeGen room, the only one that sees it. Included by lib/CMakeLists.txt after minic_room(CodeGen).

# The version file matches major.minor exactly, so "22" would mean 22.0 (docs: LLVMConfigVersion.cmake).
if(MINIC_STATIC_LLVM)
  set(ZLIB_USE_STATIC_LIBS ON)
endif()
# Tools and tests link the room from other directories, where directory-scoped imported targets would be unknown.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)
find_package(LLVM 22.1 REQUIRED CONFIG)
unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} from ${LLVM_DIR}")
# FileCheck, lit and friends of the same LLVM, for test/.
set(MINIC_LLVM_TOOLS_DIR "${LLVM_TOOLS_BINARY_DIR}" CACHE INTERNAL "LLVM's own tools")

separate_arguments(minic_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_include_directories(minicCodeGen SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
target_compile_definitions(minicCodeGen PRIVATE ${minic_llvm_definitions})
if(NOT LLVM_ENABLE_RTTI)
  target_compile_options(minicCodeGen PRIVATE -fno-rtti)
endif()

if(MINIC_STATIC_LLVM)
  llvm_map_components_to_libnames(minic_llvm_libs NVPTX passes irreader)
  # LLVMSupport asks for the shared zstd; a bundle should not. z3 stands there by absolute path, and nothing uses it.
  get_target_property(minic_support_libs LLVMSupport INTERFACE_LINK_LIBRARIES)
  list(FILTER minic_support_libs EXCLUDE REGEX "libz3")
  if(TARGET zstd::libzstd_static)
    list(TRANSFORM minic_support_libs REPLACE "zstd::libzstd_shared" "zstd::libzstd_static")
  endif()
  set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "${minic_support_libs}")
  target_link_libraries(minicCodeGen PRIVATE ${minic_llvm_libs})
  target_link_options(minicCodeGen INTERFACE LINKER:--as-needed)
else()
  target_link_libraries(minicCodeGen PRIVATE LLVM)
endif()
