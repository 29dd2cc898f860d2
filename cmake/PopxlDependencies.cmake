# Third parties. All come from the system; nanobind comes from pip.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(TBB REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(hwy REQUIRED)
find_package(dnnl REQUIRED)
find_package(asmjit REQUIRED)

# Only for runs over several processes, in a library that is loaded then.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX)
option(POPXL_MPI "Build what runs one program in several processes" ${MPI_CXX_FOUND})

if(POPXL_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark QUIET)
endif()

# The checkout's own environment wins over whatever python3 is first on PATH.
if(NOT Python_EXECUTABLE AND NOT SKBUILD AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python 3.10 COMPONENTS Interpreter Development.Module)
set(found_nanobind OFF)
if(Python_FOUND)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE nanobind_result)
  if(nanobind_result EQUAL 0)
    find_package(nanobind CONFIG)
    set(found_nanobind ${nanobind_FOUND})
  endif()
endif()
option(POPXL_PYTHON "Build the Python module" ${found_nanobind})
if(POPXL_PYTHON AND NOT found_nanobind)
  message(FATAL_ERROR "POPXL_PYTHON is ON, but Python >= 3.10 with headers and nanobind was not found. "
                      "Run tools/setup.sh or set Python_EXECUTABLE to a Python that has nanobind.")
endif()
