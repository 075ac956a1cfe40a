#include "model/meetings.hpp"

#include <cmath>

#include <truestep/problem/error.hpp>

namespace truestep::model {

double meetings(problem::gasloc::Law law, double workers) {
    using problem::gasloc::Law;
    problem::gasloc::check_law(law, static_cast<int>(workers));
    if (law == Law::given)
        throw Error(
            "law: how many meet in an explicit graph does not follow from the number of workers; use "
            "another law");
    const double cycle = workers > 2 ? workers : workers - 1;
    switch (law) {
    case Law::pairs:
        return std::floor(workers / 2);
    case Law::two_peers:
    case Law::ring:
        return cycle;
    case Law::exponential: {
        // Halfway around, in the last round of a power of two, both ends choose the same edge.
        const double rounds = std::log2(workers);
        const bool halfway = workers > 1 && rounds == std::floor(rounds);
        return halfway ? workers * (1 - 1 / (2 * rounds)) : cycle;
    }
    case Law::hypercube:
        return workers > 1 ? workers / 2 : 0;
    case Law::complete:
        return workers * (workers - 1) / 2;
    case Law::none:
    case Law::given:
        break;
    }
    return 0;
}

} // namespace truestep::model
