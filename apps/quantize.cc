#include "pagoda/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "apps/commands.h"
#include "apps/interrupt.h"
#include "apps/json.h"
#include "apps/terminal.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

/// The matrices of one layer together.
struct LayerErrors {
  double elements = 0;
  double squares = 0;  ///< of relative errors, weighted by elements
  double largest = 0;
  const QuantizedTensor* worst = nullptr;
  std::string formats;
};

void add(const QuantizedTensor& tensor, LayerErrors& to) {
  const auto elements = static_cast<double>(tensor.elements);
  to.elements += elements;
  to.squares += elements * tensor.relative_rms * tensor.relative_rms;
  to.largest = std::max(to.largest, tensor.largest_error);
  if (to.worst == nullptr || tensor.relative_rms > to.worst->relative_rms) to.worst = &tensor;
  if (to.formats.find(tensor.to) == std::string::npos) to.formats += (to.formats.empty() ? "" : " ") + tensor.to;
}

/// Vectors, which keep their precision, are not in the table.
bool is_matrix(const QuantizedTensor& tensor) { return tensor.name.ends_with(".weight") && tensor.to != "f32"; }

void print_table(const Quantized& done) {
  std::map<int, LayerErrors> layers;
  for (const QuantizedTensor& tensor : done.tensors) {
    if (is_matrix(tensor) && tensor.layer >= 0) add(tensor, layers[tensor.layer]);
  }
  std::printf("%-18s %-18s %12s %12s  %s\n", "layer", "format", "rms error", "max error", "worst tensor");
  const auto print = [](const std::string& name, const LayerErrors& row) {
    std::printf("%-18s %-18s %10.4f %% %12.3e  %s (%.4f %%)\n", name.c_str(), row.formats.c_str(),
                100 * std::sqrt(row.squares / row.elements), row.largest, row.worst->name.c_str(),
                100 * row.worst->relative_rms);
  };
  for (const QuantizedTensor& tensor : done.tensors) {
    if (tensor.layer >= 0 || !is_matrix(tensor)) continue;
    LayerErrors row;
    add(tensor, row);
    print("-", row);
  }
  for (const auto& [layer, row] : layers) print(std::to_string(layer), row);
}

/// The format that was asked for, and what the matrices have if it is not that alone.
std::string format_in_words(const Quantized& done) {
  std::set<std::string> formats;
  for (const QuantizedTensor& tensor : done.tensors) {
    if (is_matrix(tensor)) formats.insert(tensor.to);
  }
  if (formats == std::set{done.format}) return done.format;
  std::string list;
  for (const std::string& format : formats) list += (list.empty() ? "" : ", ") + format;
  return done.format + " (" + list + ")";
}

}  // namespace

Status quantize(const Arguments& arguments) {
  const Library library = PAGODA_TRY(Library::create(library_options(arguments)));
  std::atomic<bool> stop{false};
  const Interrupt interrupt([&stop] { stop.store(true); }, {SIGTERM, SIGHUP});
  QuantizeOptions options = arguments.quantize;
  options.ignore_keys = arguments.options.ignore_keys;
  options.cancelled = [&stop] { return stop.load(); };
  options.progress = progress_line();
  const Quantized done = PAGODA_TRY(pagoda::quantize(library, arguments.model, arguments.output, options));
  options.progress = {};  // wipes its line
  if (arguments.json) {
    std::printf("%s\n", to_json(done).c_str());
    return Ok{};
  }
  print_table(done);
  std::printf("%s: %.1f MB as %s, from %.1f MB as %s, in %.1f s\n", arguments.output.c_str(),
              static_cast<double>(done.bytes_written) / 1e6, format_in_words(done).c_str(),
              static_cast<double>(done.bytes_read) / 1e6, done.from.c_str(), done.seconds);
  return Ok{};
}

}  // namespace pagoda::apps
