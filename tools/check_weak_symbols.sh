#!/bin/sh
# Fails if an object compiled for one instruction set holds a weak symbol: the linker could choose that copy of an
# inline function for everyone, and a processor without the set would stop at an illegal instruction.
# Usage: check_weak_symbols.sh FOLDER_WITH_OBJECTS
set -eu
folder=$1
objects=$(find "$folder" -name '*_avx2.cc.o' -o -name '*_avx512.cc.o' -o -name '*_avx512_bf16.cc.o')
if [ -z "$objects" ]; then
  echo "check_weak_symbols: no kernel object under $folder" >&2
  exit 1
fi
status=0
for object in $objects; do
  weak=$(nm -C "$object" | grep -E ' [WVu] ' || true)
  if [ -n "$weak" ]; then
    echo "$object holds weak symbols:" >&2
    echo "$weak" >&2
    status=1
  fi
done
exit $status
