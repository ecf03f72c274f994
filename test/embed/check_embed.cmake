include(${CMAKE_CURRENT_LIST_DIR}/Installed.cmake)
expect(embed "y = [[0, 6], [1.5, 0]]\n")
expect(async "p = [[0.25, 0.75], [0.5, 0.5]]\ns = [1, 1]\n")
expect(custom "y = [[0, 3], [5, 0]]\n")
