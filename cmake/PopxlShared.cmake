# libpopxl.so: all folders in one library, with the public headers and a CMake package config.

include(CMakePackageConfigHelpers)

# A shared library needs a source of its own; its content is the folders' archives.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/popxl.cpp CONTENT "")
add_library(popxl SHARED ${CMAKE_BINARY_DIR}/generated/popxl.cpp)
add_library(popxl::popxl ALIAS popxl)
get_property(archives GLOBAL PROPERTY POPXL_ARCHIVES)
if(archives)
  list(JOIN archives "," archives)
  set_property(TARGET popxl PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${archives}")
endif()
target_link_libraries(popxl PRIVATE popxl_api)
target_compile_features(popxl INTERFACE cxx_std_20)
target_include_directories(popxl INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                                           $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/generated/include>
                                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(popxl PROPERTIES SOVERSION ${PROJECT_VERSION_MAJOR})
if(NOT SKBUILD)  # a wheel has no links: one file, under the name that is looked for
  set_target_properties(popxl PROPERTIES VERSION ${PROJECT_VERSION})
endif()
add_dependencies(popxl popxl_generated)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/popxl)
install(TARGETS popxl EXPORT popxlTargets COMPONENT cpp LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT popxlTargets NAMESPACE popxl:: DESTINATION ${config_dir} FILE popxlTargets.cmake COMPONENT cpp)
install(DIRECTORY include/popxl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT cpp FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${CMAKE_BINARY_DIR}/generated/include/popxl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT cpp
        OPTIONAL FILES_MATCHING PATTERN "*.h")
configure_package_config_file(cmake/popxlConfig.cmake.in ${CMAKE_BINARY_DIR}/popxlConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/popxlConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/popxlConfig.cmake ${CMAKE_BINARY_DIR}/popxlConfigVersion.cmake
        DESTINATION ${config_dir} COMPONENT cpp)
