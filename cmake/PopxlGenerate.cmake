# popxl-gen turns the op table into the public C++ functions and the Python ones. It links popxl_ops and nothing above
# it, so that the folders above may be built from what it writes.

set(POPXL_GENERATED "")
if(EXISTS ${CMAKE_SOURCE_DIR}/tools/popxl_gen.cpp)
  add_executable(popxl-gen ${CMAKE_SOURCE_DIR}/tools/popxl_gen.cpp)
  target_link_libraries(popxl-gen PRIVATE popxl_ops)
  set(POPXL_GENERATED_DIR ${CMAKE_BINARY_DIR}/generated)
  set(POPXL_GENERATED ${POPXL_GENERATED_DIR}/src/ops_generated.cpp)
  set(source_dir "")
  if(POPXL_PYTHON AND POPXL_INPLACE)
    set(source_dir ${CMAKE_SOURCE_DIR})
  endif()
  add_custom_command(
    OUTPUT ${POPXL_GENERATED} ${POPXL_GENERATED_DIR}/include/popxl/ops.h
    COMMAND ${CMAKE_COMMAND} -DGENERATOR=$<TARGET_FILE:popxl-gen> -DOUT=${POPXL_GENERATED_DIR} -DSOURCE=${source_dir}
            -P ${CMAKE_SOURCE_DIR}/cmake/run_generator.cmake
    DEPENDS popxl-gen ${CMAKE_SOURCE_DIR}/cmake/run_generator.cmake
    COMMENT "Generating the op functions from the op table"
    VERBATIM)
endif()
add_custom_target(popxl_generated DEPENDS ${POPXL_GENERATED})
