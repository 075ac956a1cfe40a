/// What one rank wrote of its collectives while it trained (docs/collectives.md describes the file).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::verify::collectives {

using problem::Index;

struct Shape {
    std::string type; ///< PyTorch's name: "float32"
    std::vector<Index> sizes;
};

/// A tensor, or the part of one that the definition gives to one rank.
struct Part {
    Index count = 0;
    std::uint64_t print = 0;
};

/// What a call was given, or what it left.
struct Operands {
    std::vector<Part> parts;
    std::uint64_t offset = 0; ///< of the sampled values in the file, part after part
    std::uint64_t bytes = 0;
};

struct Call {
    Index number = 0; ///< among all of this rank
    int group = 0;
    Index place = 0; ///< in its group, barring messages between two ranks, which count by themselves
    std::string name;
    int root = -1;              ///< of the group; of a message the other rank
    std::string op = {};        ///< empty: nobody saw it
    std::optional<Index> tag{}; ///< of a message
    bool asynchronous = false;
    std::vector<Shape> inputs{};
    std::vector<Shape> outputs{};
    std::vector<std::string> stack{};
    std::string unseen = {};         ///< why its values could not be read
    std::optional<Operands> given{}; ///< none: its values were not recorded
    std::optional<Operands> taken{}; ///< none: nobody saw it end
    std::string failed = {};
    bool overwritten = false; ///< the input had other values when it was waited for
    bool written = false;     ///< PyTorch counted a write before that
};

struct Group {
    std::vector<int> ranks;
    Index ordinal = 0; ///< among the groups of these ranks
};

/// The last word of a rank in which for long no collective began or ended.
struct Hang {
    double silent = 0.0; ///< seconds
    struct Wait {
        Index call;
        double seconds;
    };
    std::vector<Wait> waits;        ///< calls whose end it has not seen
    std::vector<std::string> stack; ///< where its main thread was
    std::string flight; ///< the newest entry of PyTorch's flight recorder, and the file of the dump
};

/// The gradients with which an optimizer steps.
struct Step {
    struct Parameter {
        std::string name;
        std::vector<Index> sizes;
        std::string replica;  ///< parameters of one name and replica are copies
        std::string value;    ///< fingerprints; empty: not looked at
        std::string gradient; ///< empty: there is none
    };
    Index step = 0;
    Index after = 0; ///< so many calls
    std::vector<Parameter> parameters;
    std::vector<std::string> stack;
};

struct Recording {
    std::filesystem::path path;
    std::string run;   ///< what the launcher calls it
    Index started = 0; ///< seconds since 1970
    int rank = 0;
    int world = 1;
    std::string torch;
    bool hooks = true; ///< else only what Python calls is in it
    Index every = 1;
    Index block = 1; ///< one value of each so many is sampled
    std::map<int, Group> groups;
    std::vector<Call> calls;
    std::vector<Step> steps;
    std::optional<Hang> hang{};
    bool ended = false; ///< the watching was stopped, and not the process killed
    bool torn = false;  ///< it ends in the midst of a record
};

/// Throws truestep::Error that names the record. What a killed process left is read up to the last whole
/// record.
[[nodiscard]] Recording read_recording(const std::filesystem::path& path);

/// The sampled values of all parts, one after the other.
[[nodiscard]] std::vector<std::byte> sampled_values(const Recording& recording, const Operands& operands);

/// Which of a part's values a sample has: of each block one, drawn by the call's place, the same on all
/// ranks.
[[nodiscard]] std::vector<Index> sampled_indices(Index count, Index block, Index place);

} // namespace truestep::verify::collectives
