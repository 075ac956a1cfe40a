// A second, plain worker of GASLoC, in which known bugs are planted.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "implementation.hpp"
#include "numbers.hpp"

namespace truestep::properties::gasloc {

/// One worker, as plain as can be, with one known bug. It shares no code with the optimized one.
class PlainWorker final : public RankUnderTest {
  public:
    PlainWorker(Number known_bug, Settings settings, State state, distributed::Peers& peers);

    bool step(std::span<const float> gradient, double learning_rate) override;
    bool round() override;
    State state() const override { return state_; }
    void restore(State state) override;
    void save(const std::filesystem::path& folder, int rank, int workers) const override;

  private:
    using Floats = std::vector<float>;

    using Numbers = std::vector<std::uint64_t>;
    /// What each rank says under that number. It is a barrier, too.
    [[nodiscard]] std::vector<Numbers> numbers_of_all(const Numbers& mine, std::uint64_t number);
    /// Compares the settings of all ranks.
    void agree();
    [[nodiscard]] Floats drifted() const;
    [[nodiscard]] Floats gossiped(const Floats& y, const std::vector<Neighbour>& met);
    [[nodiscard]] Floats in_place_gossiped(Floats y, const std::vector<Neighbour>& met);
    [[nodiscard]] Floats received(int peer, std::size_t size, Index number);
    void send(int peer, const Floats& values, Index number);
    [[nodiscard]] Index graphs_round() const;

    Number known_bug_;
    Settings settings_;
    State state_; ///< when the round began
    State now_;   ///< theta: x
    distributed::Peers& peers_;
    Index steps_ = 0;
    Index rounds_with_steps_ = 0;
    Index of_this_life_ = 0; ///< rounds since the start or restart
    double first_rate_ = 0.0;
    bool skipped_ = false;
    std::map<int, Floats> last_of_; ///< the last message of each peer
};

/// Reads a checkpoint of plain files, one per worker; it can do no more than tests need.
[[nodiscard]] State read_plain(Number known_bug, const Settings& settings,
                               const std::filesystem::path& folder, const distributed::Peers& peers);

} // namespace truestep::properties::gasloc
