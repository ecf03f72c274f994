include(${CMAKE_CURRENT_LIST_DIR}/../embed/Installed.cmake)
# exp(0), exp(1), exp(2) over their sum, 11.1073.
expect(softmax "y = [0.0900, 0.2447, 0.6652]\n")
expect(custom_op "y = [0, 20, 300]\n")
