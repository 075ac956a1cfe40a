#pragma once

#include <scape/gasloc/settings.hpp>
#include <scape/problem/layout.hpp>

#include "outcome.hpp"

struct scape_gasloc_problem {
    scape::problem::Layout layout;
    int workers = 1;
    scape::gasloc::Settings settings{};
    int threads = 1;
};
