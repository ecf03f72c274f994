# Installs minic from BUILD below WORK, builds SOURCE against it and compares what the program prints.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_PREFIX_PATH=${WORK}/prefix
     -D LLVM_DIR=${LLVM_DIR})
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${WORK}/build/embed)
set(expected "y = [[0, 6], [1.5, 0]]\n")
if(NOT out STREQUAL expected)
  message(FATAL_ERROR "printed: ${out}expected: ${expected}")
endif()
