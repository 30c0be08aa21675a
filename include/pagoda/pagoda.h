// Everything that Pagoda offers to a program.
#pragma once

#include "pagoda/bench.h"
#include "pagoda/generation.h"
#include "pagoda/inspect.h"
#include "pagoda/library.h"
#include "pagoda/memory.h"
#include "pagoda/model.h"
#include "pagoda/progress.h"
#include "pagoda/quantize.h"
#include "pagoda/request.h"
#include "pagoda/score.h"
#include "pagoda/session.h"
#include "pagoda/stats.h"
#include "pagoda/types.h"
#include "pagoda/warm.h"
