#include <scape/gasloc/stability.hpp>
