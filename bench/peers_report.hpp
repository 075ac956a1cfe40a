#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <truestep/distributed/aligned.hpp>

#include "peers/limit.hpp"
#include "peers/peer.hpp"

// The results of bench_peers, and how they are reported.

namespace truestep::bench {

using peers::Index;

struct Options {
    Index size = Index{1} << 22;
    int ranks = 4;
    std::vector<std::string> peers;
    int steps = 9;
    /// Steps before timing, for peers that select. SCAPE looks for the coming mask in its local
    /// pass once it has seen enough thresholds to predict the next, after some ten steps. Other
    /// peers take only the last few.
    int warm_up = 25;
    int threads = 1; ///< threads that share a rank's passes
    Index check_size = 20'011;
    std::string communicator = "threads";
    std::string interface;
    double rate = 0;  ///< of a rank's link, bits a second each way; 0: none that would bound anything
    double delay = 0; ///< seconds of a frame from rank to rank at least, where the network sees to that
    std::string json;
    std::string benchmark_out;
    std::string title;
    int timeout = 300;
};

/// Warm-up steps of peers that do not select: their steps are alike from the second on.
constexpr int most_warm_up_of_others = 5;

/// One peer. Times are means of a rank's step; `formula` and the counts compared with it are bytes
/// of a round of all ranks.
struct Row {
    const peers::Kind* kind;
    peers::Setting setting;
    std::unique_ptr<peers::Peer> peer{};
    distributed::AlignedFloats given{}; ///< the gradient for a peer that consumes it
    int rounds = 0;                     ///< taken, of all
    Index wrong = 0;
    double formula = 0;
    std::optional<double> unlike{}; ///< what has been counted and is not the formula's, the last of such
    std::vector<double> seconds{};
    std::vector<double> cpu{};
    std::vector<double> counted{};
    std::vector<double> kernel{};

    [[nodiscard]] double inner_steps() const {
        return static_cast<double>(peers::inner_steps(*kind, setting));
    }
};

/// Figures of a whole run; the same on all ranks.
struct Figures {
    std::vector<Row> rows;
    std::vector<double> copies; ///< bytes a second of each rank's copy, while all copied
};

/// Prints the table, and writes the file of figures if the options name one.
void print(const Options& options, const Figures& figures);

/// Whether all rows have the right bits and bytes; prints a line for each with wrong bytes.
[[nodiscard]] bool in_order(const std::vector<Row>& rows);

} // namespace truestep::bench
