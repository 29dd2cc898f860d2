# What a build can choose, and the flags that every target of ours is compiled with.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

option(POPXL_TESTS "Build the C++ tests, examples and benchmarks" ON)
option(POPXL_WERROR "Treat warnings as errors" ON)
option(POPXL_INPLACE "Place the Python module and generated Python files in python/ of the checkout" ON)
set(POPXL_SANITIZE "" CACHE STRING "Value for -fsanitize=, for example address,undefined")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Results may not depend on how the compiler pairs multiplications with additions.
add_compile_options(-ffp-contract=off)

if(POPXL_SANITIZE)
  add_compile_options(-fsanitize=${POPXL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${POPXL_SANITIZE})
endif()

# ccache sees the same command from any build directory: paths relative to the checkout, directory not hashed.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${CCACHE})
endif()

# Every target of ours has the warnings; popxl_flags adds the internal include folders.
add_library(popxl_warnings INTERFACE)
target_compile_options(popxl_warnings INTERFACE -Wall -Wextra $<$<BOOL:${POPXL_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # -Wrestrict misfires on std::string in g++ 12; -Wpsabi is about an ABI that no caller outside sees.
  target_compile_options(popxl_warnings INTERFACE -Wno-restrict -Wno-psabi -Wno-maybe-uninitialized)
endif()
add_library(popxl_flags INTERFACE)
target_link_libraries(popxl_flags INTERFACE popxl_warnings)
target_include_directories(popxl_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
                                                 ${CMAKE_BINARY_DIR}/generated/include)
