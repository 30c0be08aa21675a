# cmake -DROOT=src -DFILES="a;b" -DHEADER=x.h -DNAMESPACE=n -DFUNCTION=f -DOUT=x.cc -P embed_sources.cmake: writes the
# texts of files as one C++ table, and the function of the header that returns it. A text is cut into pieces, since
# compilers bound the length of one string literal.
if(NOT TYPE)
  set(TYPE device::EmbeddedSource)  # {name, text}
endif()
set(table "")
set(index 0)
file(WRITE ${OUT} "#include \"${HEADER}\"\n\n#include <array>\n\nnamespace pagoda::${NAMESPACE} {\nnamespace {\n\n")
foreach(name ${FILES})
  file(READ ${ROOT}/${name} text)
  file(APPEND ${OUT} "constexpr char kText${index}[] =\n")
  string(LENGTH "${text}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 8000 piece)
    file(APPEND ${OUT} "R\"PAGODA(${piece})PAGODA\"\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  file(APPEND ${OUT} "\"\";\n")
  string(APPEND table "  {\"${name}\", {kText${index}, sizeof kText${index} - 1}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(APPEND ${OUT} "\nconstexpr std::array<${TYPE}, ${index}> kSources = {{\n${table}}};\n\n}  // namespace\n\nstd::span<const ${TYPE}> ${FUNCTION}() { return kSources; }\n\n}  // namespace pagoda::${NAMESPACE}\n")
