# Installs minic from BUILD below WORK, builds the C program SOURCE against it and compares what it prints.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${WORK}/prefix)
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${WORK}/build/softmax)
# exp(0), exp(1), exp(2) over their sum, 11.1073.
set(expected "y = [0.0900, 0.2447, 0.6652]\n")
if(NOT out STREQUAL expected)
  message(FATAL_ERROR "printed: ${out}expected: ${expected}")
endif()
