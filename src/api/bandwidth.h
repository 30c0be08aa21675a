#pragma once

namespace pagoda::api {

/// Bytes a second that this many threads read together from memory far larger than the caches: the best of a few
/// short runs.
double measure_read_bandwidth(int threads);

}  // namespace pagoda::api
