# How a folder of src/, a tool, a test and an example become targets.

set_property(GLOBAL PROPERTY POPXL_ARCHIVES "")

# popxl_folder(NAME DEPENDS... ): target popxl_NAME from the folder's sources. A folder without sources is headers only.
function(popxl_folder name)
  cmake_parse_arguments(arg "" "" "DEPENDS;SOURCES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(APPEND sources ${arg_SOURCES})
  if(sources)
    add_library(popxl_${name} STATIC ${sources})
    target_link_libraries(popxl_${name} PUBLIC popxl_flags ${arg_DEPENDS})
    set_property(GLOBAL APPEND PROPERTY POPXL_ARCHIVES popxl_${name})
  else()
    add_library(popxl_${name} INTERFACE)
    target_link_libraries(popxl_${name} INTERFACE popxl_flags ${arg_DEPENDS})
  endif()
endfunction()

# popxl_tools(NAME...): tools/some_name.cpp becomes the executable some-name, where the source exists.
function(popxl_tools)
  foreach(tool ${ARGN})
    string(REPLACE "-" "_" stem ${tool})
    if(EXISTS ${CMAKE_SOURCE_DIR}/tools/${stem}.cpp)
      add_executable(${tool} ${CMAKE_SOURCE_DIR}/tools/${stem}.cpp)
      target_link_libraries(${tool} PRIVATE popxl popxl_flags fmt::fmt spdlog::spdlog_header_only)
      set_target_properties(${tool} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin
                                               INSTALL_RPATH $ORIGIN/../${CMAKE_INSTALL_LIBDIR})
      install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT cpp)
    endif()
  endforeach()
endfunction()

# popxl_programs(PREFIX FOLDER LIBRARIES...): every FOLDER/name.cpp becomes the executable PREFIXname.
# The list of targets is left in PREFIXprograms.
function(popxl_programs prefix folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  set(programs "")
  foreach(source ${sources})
    get_filename_component(stem ${source} NAME_WE)
    set(program ${prefix}${stem})
    add_executable(${program} ${source})
    target_link_libraries(${program} PRIVATE popxl_warnings ${ARGN})
    list(APPEND programs ${program})
  endforeach()
  set(${prefix}programs ${programs} PARENT_SCOPE)
endfunction()
