# Installs the build into a folder, builds examples/ask against nothing else, and lets it ask.
set(prefix ${BUILD}/installed)
set(example ${BUILD}/ask)
file(REMOVE_RECURSE ${prefix} ${example})
foreach(command
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${prefix}"
    "${CMAKE_COMMAND};-S;${SOURCE}/examples/ask;-B;${example};-G;Ninja;-DCMAKE_PREFIX_PATH=${prefix}"
    "${CMAKE_COMMAND};--build;${example}"
    "${example}/ask;${SOURCE}/models/SmolLM2-135M-Instruct.Q4_1.gguf")
  execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${command}: ${result}\n${out}")
  endif()
endforeach()
if(NOT out MATCHES "And another one.*of them cached")
  message(FATAL_ERROR "the example said: ${out}")
endif()
