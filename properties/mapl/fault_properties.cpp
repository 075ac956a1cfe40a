// Properties of failures: every rank of a pipeline is told if a stage dies or sends impossible numbers.
#include <algorithm>
#include <span>
#include <string>

#include "family.hpp"

namespace truestep::properties::mapl {

namespace {

/// Writes the number again and again, in so many bits each, the lowest first.
void fill_with(std::span<std::uint8_t> bytes, std::size_t bits, std::uint64_t number) {
    for (std::size_t at = 0; at < bytes.size() * 8; ++at) {
        const auto mask = static_cast<std::uint8_t>(1U << at % 8);
        const bool one = (number >> at % bits & 1U) != 0;
        bytes[at / 8] = static_cast<std::uint8_t>(one ? bytes[at / 8] | mask : bytes[at / 8] & ~mask);
    }
}

/// The failing sender's message with the least ids, or else indices, that cannot be; none if each number
/// of their bits can be.
RecordingPeers::Damage impossible_numbers(const Scenario& fatal, bool ids) {
    const auto& at = fatal.fails;
    const Settings settings = fatal.settings(fatal.stage_of(at.rank), Side::sender);
    const std::size_t tokens =
        fatal.ids(at.step, fatal.replica_of(at.rank) * fatal.run.micro + at.micro).size();
    const auto codewords = static_cast<std::uint64_t>(settings.quantization.codewords);
    const std::size_t before =
        codewords > 0 ? index_bytes(settings, tokens)
                      : tokens * static_cast<std::size_t>(settings.rank) * value_bytes(settings.payload);
    const auto least = ids ? static_cast<std::uint64_t>(settings.vocabulary) : codewords;
    const auto bits = ids ? 8 * id_bytes(settings.vocabulary)
                          : static_cast<std::size_t>(index_bits(settings.quantization.codewords));
    // Without codewords there are too many bits to shift by.
    if (tokens == 0 || least == 0 || least == std::uint64_t{1} << bits)
        return {};
    return [=](std::vector<std::uint8_t>& message) {
        const std::span<std::uint8_t> all = message;
        fill_with(ids ? all.subspan(before, tokens * bits / 8) : all.first(before), bits, least);
    };
}

// 19. If a stage dies, or sends what cannot be, all end with its name.
void faults(Trial& trial) {
    const Case& run = trial.run;
    Scenario fatal = trial.scenario;
    fatal.fails = {static_cast<int>(run.seed % run.ranks()), run.seed % run.steps,
                   run.seed / 7 % run.micro};
    std::string how = " has died";
    if (trial.candidate.checks_messages() && run.seed % 2 == 1) {
        const bool ids = run.seed % 4 == 1;
        Scenario damaged = fatal;
        damaged.fails.rank = fatal.senders()[static_cast<std::size_t>(run.seed) % fatal.senders().size()];
        damaged.fails.damage = impossible_numbers(damaged, ids);
        if (damaged.fails.damage) {
            fatal = damaged;
            how = ids ? " sent the id " : " sent the index ";
        }
    }
    trial.judged.kind(fatal.fails.damage != nullptr, "a damaged message");
    std::vector<RankRecording> seen = trial.play(fatal);
    const std::string name = "rank " + std::to_string(fatal.fails.rank) + how;
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
        const std::string line = seen[rank].refused["ended"];
        trial.expect(line.find(name) != std::string::npos && line.find('\n') == std::string::npos,
                     fatal.fails.step, [&] {
                         return name + ", and rank " + std::to_string(rank) +
                                (line.empty() ? " goes on" : " ends with: " + line);
                     });
    }
}
Case one_life(Case run) {
    run.restart = 0;
    run.micro = std::max<Index>(run.micro, 1);
    return run;
}

} // namespace

std::vector<gate::Property> fault_properties() {
    return {property(19, "faults", "A stage dies or sends an impossible number, and all end with its name.",
                     faults, {"several boundaries", "several micro-batches"}, one_life, Replicas::any)};
}

} // namespace truestep::properties::mapl
