// Loads a training checkpoint on all processes, or refuses it on all with one reason.
#include "multi_process_checkpoint.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <truestep/gate/record.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>

namespace truestep::training {

namespace {

using distributed::Communicator;

/// One rank's findings, in a record for all ranks.
struct CheckpointReport {
    std::uint64_t begins = 0; ///< the step after the checkpoint's; 0: there is none
    std::uint64_t digest = 0; ///< of all ranks' states in it
    std::array<char, 600> fault{};
};

std::uint64_t digest_of(const Checkpoint& checkpoint) {
    std::uint64_t digest = 0;
    for (const peers::State& state : checkpoint.ranks)
        for (const std::uint8_t byte : gate::packed(state))
            digest = problem::mix64(digest ^ byte);
    return digest;
}

CheckpointReport found(const std::optional<Checkpoint>& checkpoint, const std::string& fault) {
    CheckpointReport mine{
        checkpoint ? checkpoint->step + 1 : 0, checkpoint ? digest_of(*checkpoint) : 0, {}};
    std::copy_n(fault.begin(), std::min(fault.size(), mine.fault.size() - 1), mine.fault.begin());
    return mine;
}

std::string words_of(const CheckpointReport& one) {
    return one.begins == 0 ? "none" : "that of step " + std::to_string(one.begins - 1);
}

} // namespace

void bring_to_first(Checkpoint& kept, Communicator& ranks) {
    struct Mine {
        std::uint64_t bytes = 0;
        std::uint64_t sent = 0;
    };
    const auto rank = static_cast<std::size_t>(ranks.rank());
    const std::vector<std::uint8_t> mine = gate::packed(kept.ranks[rank]);
    const std::vector<Mine> all = distributed::gather_records(ranks, Mine{mine.size(), kept.sent[rank]});
    std::vector<std::size_t> to(all.size(), 0);
    std::vector<std::size_t> from(all.size(), 0);
    to.front() = mine.size();
    if (rank == 0)
        std::ranges::transform(all, from.begin(), [](const Mine& one) { return one.bytes; });
    std::vector<std::uint8_t> received(std::reduce(from.begin(), from.end()));
    ranks.start_all_to_all(distributed::Traffic::agreement, mine.data(), to, received.data(), from)->wait();
    if (rank != 0)
        return;
    auto begin = received.begin();
    for (std::size_t other = 0; other < all.size(); ++other) {
        const auto end = begin + static_cast<std::ptrdiff_t>(from[other]);
        kept.ranks[other] = gate::unpacked<peers::State>({begin, end});
        kept.sent[other] = all[other].sent;
        begin = end;
    }
}

SharedCheckpoint load_together(const std::filesystem::path& path, const nlohmann::ordered_json& identity,
                               Communicator& ranks) {
    SharedCheckpoint result;
    std::string fault;
    try {
        result.checkpoint = load(path, identity);
    } catch (const std::exception& error) {
        fault = error.what();
    }
    const std::vector<CheckpointReport> all =
        distributed::gather_records(ranks, found(result.checkpoint, fault));
    for (std::size_t rank = 0; rank < all.size() && result.refused.empty(); ++rank) {
        result.refused = all[rank].fault.data();
        const bool another_step = all[rank].begins != all.front().begins;
        if (result.refused.empty() && (another_step || all[rank].digest != all.front().digest))
            result.refused = path.filename().string() + ": rank " + std::to_string(rank) +
                             " finds another checkpoint, " + words_of(all[rank]) + ", than rank 0, " +
                             (another_step ? words_of(all.front()) : "of the same step") +
                             "; give --checkpoints a folder that all ranks share";
    }
    return result;
}

} // namespace truestep::training
