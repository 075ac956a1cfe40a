#include <gtest/gtest.h>

#include <scape/gasloc/stability.hpp>
