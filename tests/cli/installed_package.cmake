# Installs the build into a folder; builds examples/ask and README's program against nothing else, and lets both ask.
set(prefix ${BUILD}/installed)
set(programs ${BUILD}/package_programs)
set(model ${SOURCE}/models/SmolLM2-135M-Instruct.Q4_1.gguf)
file(REMOVE_RECURSE ${prefix} ${programs})

# README's lines below its #include are the body of a function.
file(READ ${SOURCE}/README.md readme)
string(REGEX MATCH "```cpp\n(#include[^\n]+\n)\n([^`]+)```" snippet "${readme}")
if(NOT snippet)
  message(FATAL_ERROR "README.md has no C++ program any more")
endif()
file(WRITE ${programs}/readme.cc "${CMAKE_MATCH_1}#include <iostream>\n\nint main() {\n${CMAKE_MATCH_2}}\n")
file(WRITE ${programs}/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(package_programs LANGUAGES CXX)
add_subdirectory(${SOURCE}/examples/ask ask)
find_package(pagoda 0.1 REQUIRED)
add_executable(readme readme.cc)
target_compile_features(readme PRIVATE cxx_std_20)
target_link_libraries(readme PRIVATE pagoda::pagoda)
")
file(CREATE_LINK ${model} ${programs}/model.gguf SYMBOLIC)  # as README calls it

function(run expected)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${programs}
                  RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT result EQUAL 0 OR NOT out MATCHES "${expected}")
    message(FATAL_ERROR "${ARGN}: ${result}\n${out}${err}")
  endif()
endfunction()
run("" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
run("" ${CMAKE_COMMAND} -S . -B . -G Ninja -DCMAKE_PREFIX_PATH=${prefix})
run("" ${CMAKE_COMMAND} --build .)
run("And another one.*of them cached" ask/ask ${model})
run("[A-Za-z]+" ./readme)
