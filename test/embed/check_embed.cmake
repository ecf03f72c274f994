# Installs minic from BUILD below WORK, builds SOURCE against it and compares what the programs print.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}${err}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

function(expect program expected)
  step(${WORK}/build/${program})
  if(NOT out STREQUAL expected)
    message(FATAL_ERROR "${program} printed:\n${out}expected:\n${expected}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_PREFIX_PATH=${WORK}/prefix
     -D LLVM_DIR=${LLVM_DIR})
step(${CMAKE_COMMAND} --build ${WORK}/build)
expect(embed "y = [[0, 6], [1.5, 0]]\n")
expect(async "p = [[0.25, 0.75], [0.5, 0.5]]\ns = [1, 1]\n")
