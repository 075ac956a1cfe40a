// The C handle of a GASLoC problem: the model, the workers and the settings.
#pragma once

#include <truestep/problem/gasloc/settings.hpp>
#include <truestep/problem/layout.hpp>

#include "outcome.hpp"

struct truestep_gasloc_problem {
    truestep::problem::Layout layout;
    int workers = 1;
    truestep::problem::gasloc::Settings settings{};
    int threads = 1;
};
