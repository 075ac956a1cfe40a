// Names the tensors of a trace by kind, step and rank, and the ways of recording replicas.
#include <truestep/trace/schema.hpp>

#include <array>
#include <cstddef>
#include <cstdio>

#include <truestep/problem/error.hpp>

namespace truestep::trace {

namespace {

constexpr std::array<std::string_view, 3> replicas_names{"none", "copies", "fingerprints"};

std::string step_folder(Index step) {
    char text[48];
    std::snprintf(text, sizeof text, "step/%04lld/", static_cast<long long>(step));
    return text;
}

} // namespace

std::string_view name(Replicas replicas) {
    return replicas_names.at(static_cast<std::size_t>(replicas));
}

Replicas parse_replicas(const std::string& text) {
    for (std::size_t i = 0; i < replicas_names.size(); ++i)
        if (text == replicas_names[i])
            return static_cast<Replicas>(i);
    throw Error("--replicas is '" + text + "'; it must be none, copies or fingerprints");
}

std::string name(const Kind& kind) {
    return std::string(kind.name) + (kind.part > 0 ? "." + std::to_string(kind.part) : "");
}

std::string tensor_name(const Kind& kind, Index step, int rank) {
    return step_folder(step) + name(kind) + (kind.per_rank ? "/rank" + std::to_string(rank) : "");
}

std::string copy_name(const Kind& kind, Index step, int rank) {
    return tensor_name(kind, step, 0) + "/rank" + std::to_string(rank);
}

std::string fingerprint_name(const Kind& kind, Index step) {
    return tensor_name(kind, step, 0) + "/fingerprint";
}

} // namespace truestep::trace
