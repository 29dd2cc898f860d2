# Runs GENERATOR into a scratch folder and copies to OUT (and its python/ and docs/ parts to SOURCE) only what changed,
# so that an unrelated change of the op library rebuilds nothing.

set(scratch ${OUT}/scratch)
file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch}/include/popxl ${scratch}/src)
execute_process(COMMAND ${GENERATOR} ${scratch} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${GENERATOR} ${scratch} failed: ${result}")
endif()
file(GLOB_RECURSE files RELATIVE ${scratch} ${scratch}/*)
foreach(file ${files})
  configure_file(${scratch}/${file} ${OUT}/${file} COPYONLY)
  if(SOURCE AND file MATCHES "^(python|docs)/")
    configure_file(${scratch}/${file} ${SOURCE}/${file} COPYONLY)
  endif()
endforeach()
file(REMOVE_RECURSE ${scratch})
