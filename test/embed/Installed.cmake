# Installs minic from BUILD below WORK and builds SOURCE against it. `expect` compares what a program of it prints. CXX may be empty.
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

if(CXX)
  set(compiler -D CMAKE_CXX_COMPILER=${CXX})
endif()
file(REMOVE_RECURSE ${WORK})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${WORK}/prefix
     ${compiler})
step(${CMAKE_COMMAND} --build ${WORK}/build)
