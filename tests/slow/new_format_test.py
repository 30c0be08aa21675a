#!/usr/bin/env python3
"""A new weight format is one header and its entry in src/quant/formats.h: one is made in a copy of the tree, and a model
run in it.

Usage: new_format_test.py BUILD MODEL.gguf
BUILD is a release build of this tree. In the copy only what depends on the list is compiled, by the copy's own rules,
and linked with the rest of BUILD. Without NVRTC it says that the GPU's kernels were not compiled.
"""
import array
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIST = "src/quant/formats.h"
NAME = "odd5"
HEADER = """\
// An invented format: codes of 5 bits and a bfloat16 scale for 24 columns, 17 bytes; w = (q - 15)·scale.
#pragma once

#include "base/numbers.h"
#include "quant/formats/code_bits.h"

namespace pagoda::quant {

struct ODD5 {
  static constexpr char kName[] = "odd5";
  static constexpr int kGgufType = 97;
  static constexpr int kBlockElements = 24;
  struct Block {
    std::uint8_t scale[2];
    std::uint8_t codes[15];
  };
  static PAGODA_SHARED float scale(const Block& block) {
    return bf16_to_float(static_cast<std::uint16_t>(block.scale[0] | block.scale[1] << 8));
  }
  static PAGODA_SHARED float decode(const Block& block, int element) {
    return static_cast<float>(code_at<5>(block.codes, element) - 15) * scale(block);
  }
};

PAGODA_SHARED void encode(const float* values, ODD5::Block& block, ODD5) {
  float peak = 0;
  for (int i = 0; i < 24; ++i) {
    const float size = values[i] < 0 ? -values[i] : values[i];
    peak = size > peak ? size : peak;
  }
  block = {};
  const std::uint16_t bits = float_to_bf16(peak / 15);
  block.scale[0] = static_cast<std::uint8_t>(bits & 255);
  block.scale[1] = static_cast<std::uint8_t>(bits >> 8);
  const float scale = ODD5::scale(block);
  for (int i = 0; i < 24; ++i) {
    const float q = scale > 0 ? values[i] / scale : 0;
    const int code = static_cast<int>(q < 0 ? q - 0.5f : q + 0.5f) + 15;
    add_code<5>(block.codes, i, code < 0 ? 0 : code > 30 ? 30 : code);
  }
}

}  // namespace pagoda::quant
"""
TOKENS = "504,2012,338,1834,29,28,649,314"


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def copy_tree(copy):
    for name in run("git", "-C", SOURCE, "ls-files", "-z").split("\0"):
        if name and (SOURCE / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, copy / name)


def add_format(copy):
    """The whole addition."""
    (copy / "src/quant/formats" / f"{NAME}.h").write_text(HEADER)
    text = (copy / LIST).read_text()
    last_include = text.rindex("#include")
    end = text.index("\n", last_include) + 1
    text = text[:end] + f'#include "quant/formats/{NAME}.h"\n' + text[end:]
    assert text.count("BNB_FP4>;") == 1
    (copy / LIST).write_text(text.replace("BNB_FP4>;", "BNB_FP4, ODD5>;"))


def objects_to_make(build):
    """What ninja would make again: what is compiled from the list, and the device code that travels in the program."""
    objects, output = [], ""
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            output = line.split(":")[0]
        elif line.endswith("/" + LIST) and output.startswith(("src/", "apps/")):
            objects.append(output)
    assert len(objects) >= 3, f"{build} is not built: {objects}"
    return objects + ["src/CMakeFiles/pagoda_kernels.dir/__/embedded_sources.cc.o"]


def build_program(build, copy):
    made = copy / "build/release"
    run("cmake", "--preset", "release", "-DPAGODA_TESTS=OFF", cwd=copy)
    objects = objects_to_make(build)
    run("ninja", "-C", made, *objects)
    link = run("ninja", "-C", build, "-t", "commands", "bin/pagoda").strip().splitlines()[-1]
    assert link.count(" -o bin/pagoda ") == 1, link
    program = made / "pagoda"
    # No archive's member is taken for what is defined already.
    first = " ".join(str(made / each) for each in objects)
    run("sh", "-c", link.replace(" -o bin/pagoda ", f" {first} -o {program} "), cwd=build)
    print(f"{len(objects)} objects compiled")
    return program


def logits(program, model, place, *flags):
    out = place / "logits.npy"
    run(program, "score", model, "--tokens", TOKENS, "--logits", out, *flags)
    data = out.read_bytes()
    values = array.array("f")
    values.frombytes(data[10 + struct.unpack("<H", data[8:10])[0]:])
    out.unlink()
    return values


def error(wanted, found):
    assert len(wanted) == len(found) > 0
    mean = math.fsum(wanted) / len(wanted)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in wanted) / len(wanted))
    return max(abs(a - b) if math.isfinite(b) else math.inf for a, b in zip(wanted, found)) / deviation


def check_model(program, model, place):
    coded, plain = place / "coded.gguf", place / "plain.gguf"
    told = json.loads(run(program, "quantize", model, coded, "--format", NAME, "--json"))["tensors"]
    matrices = [t for t in told if t["to"] == NAME]
    assert len(matrices) == 211 and all(0 < t["relative_rms"] < 0.06 for t in matrices), matrices[:3]
    run(program, "quantize", coded, plain, "--format", "f32", "--json")
    wanted = logits(program, plain, place, "--device", "reference")
    assert error(wanted, logits(program, coded, place, "--device", "reference")) == 0
    for cpu in ["portable", "avx2"]:
        found = error(wanted, logits(program, coded, place, "--device", "cpu", "--precision", "high", "--cpu", cpu))
        print(f"cpu {cpu}: largest error over the logits' deviation {found:.1e}")
        assert found <= 2e-2
    unquantised = error(wanted, logits(program, model, place, "--device", "cpu", "--precision", "high"))
    assert unquantised > 2e-2, "the comparison cannot tell the models apart"
    return coded


def check_gpu(program, coded, place):
    support = run(program, "inspect", coded, "--support")
    assert any(NAME in line and "cuda_generic_rows" in line for line in support.splitlines()), support
    done = subprocess.run([program, "warm", coded, "--caps", "h200", "--max-running", "1", "--json"], check=False,
                          capture_output=True, text=True, env=os.environ | {"XDG_CACHE_HOME": str(place)})
    if done.returncode == 4:
        print("NOT RUN: " + done.stderr.strip())
        return
    assert done.returncode == 0, done.stderr
    print(f"{json.loads(done.stdout)['compiled']} units compiled for sm_90")


if __name__ == "__main__":
    BUILD, MODEL = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        COPY = pathlib.Path(folder) / "copy"
        copy_tree(COPY)
        add_format(COPY)
        PROGRAM = build_program(BUILD, COPY)
        CODED = check_model(PROGRAM, MODEL, pathlib.Path(folder))
        check_gpu(PROGRAM, CODED, pathlib.Path(folder))
