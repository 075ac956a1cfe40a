// Names SCAPE's reductions, and the verification level that each claims.
#include <string>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::distributed::scape {

std::string_view name(Reduction reduction) {
    return reduction == Reduction::ordered ? "ordered" : "native";
}

std::string_view level(Reduction reduction) {
    return reduction == Reduction::ordered ? "exact" : "rel";
}

Reduction parse_reduction(std::string_view text) {
    for (const Reduction reduction : {Reduction::ordered, Reduction::native})
        if (name(reduction) == text)
            return reduction;
    throw Error("reduction is '" + std::string(text) + "'; it must be one of ordered, native");
}

} // namespace truestep::distributed::scape
