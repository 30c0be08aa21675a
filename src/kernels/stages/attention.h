// Stage: attention over the cache pages. It is one elementary operation already, so its candidates are that one's.
#pragma once

#include "kernels/attention/attention.h"
