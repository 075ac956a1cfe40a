#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <truestep/distributed/scape/backend.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::gpu::bench {

using problem::Index;

/// The phases of a rank's step, in the order of distributed::scape::Scape. Exchanges are copies
/// here.
enum class Phase : std::uint8_t {
    check,       ///< section 4.1
    decode,      ///< of the gathered mask
    advance,     ///< the mask's turn; counts what both masks have
    local_pass,  ///< sections 4.2, 4.4, 4.6
    select,      ///< section 4.3, of the own shard, and its code
    exchange,    ///< no work of the rank's: all parts are its own
    fold,        ///< section 4.4
    reconstruct, ///< sections 4.5, 4.7: nothing without clipping
    update,      ///< section 4.8, and the verdict's way to the host
};
constexpr std::array<Phase, 9> phases{Phase::check,      Phase::decode,      Phase::advance,
                                      Phase::local_pass, Phase::select,      Phase::exchange,
                                      Phase::fold,       Phase::reconstruct, Phase::update};
[[nodiscard]] std::string_view name(Phase phase);

/// The sizes of a step of rank 0 of `workers`.
struct Setting {
    Setting(Index size, double density, int workers);

    problem::Problem problem;
    std::vector<distributed::scape::MaskCode::Part> all;
    std::vector<distributed::scape::MaskCode::Part> own;
    Index size;
    Index shard = 0;        ///< coordinates of the own range
    Index selected = 0;     ///< k of all
    Index own_selected = 0; ///< and of the own range
    double density;
    std::size_t code = 0;     ///< bytes of the mask's code
    std::size_t own_code = 0; ///< and of the own part of it
};

/// The least bytes that a phase has to move through the device's memory: each input read once, each
/// output written once. 0 where the phase is not work of the step itself.
[[nodiscard]] double least_bytes(Phase phase, const Setting& setting);
/// The least bytes of a whole step without the check, which reads the gradient once more.
[[nodiscard]] double least_bytes_of_step(const Setting& setting);

/// Copies memory of a backend, in the order of its work.
using Copy = std::function<void(void* to, const void* from, std::size_t bytes)>;

/// Drives one backend through steps.
class LocalRank {
  public:
    LocalRank(const Setting& setting, std::unique_ptr<distributed::scape::Backend> backend, Copy copy)
        : setting_(setting), backend_(std::move(backend)), copy_(std::move(copy)) {}

    /// Replaces start(): selects on all shards, and returns the code. A rank gets the other owners'
    /// masks this way.
    [[nodiscard]] const std::uint8_t* scout(const float* gradient);
    /// Takes the first step, with a mask that another rank's scout() has found.
    void start(const std::uint8_t* code, const float* gradient);

    /// Runs the phases, one step after the other. Throws std::runtime_error if the step goes wrong.
    void run(Phase phase, const float* gradient);

    [[nodiscard]] distributed::scape::Backend& backend() { return *backend_; }

  private:
    [[nodiscard]] distributed::Scalars scalars() const;

    const Setting& setting_;
    std::unique_ptr<distributed::scape::Backend> backend_;
    Copy copy_;
    Index step_ = 1;
};

/// Makes a backend from a problem and its first parameters.
using MakeBackend = std::function<std::unique_ptr<distributed::scape::Backend>(const problem::Problem&,
                                                                               std::span<const float>)>;

/// Compares a few steps of a backend with the host's: how many parameters, residuals, moments and
/// words of masks have other bits, over all steps. Without this check a timing could be that of
/// another computation.
[[nodiscard]] Index wrong_values(const Setting& setting, const MakeBackend& make, const Copy& copy,
                                 int steps);

} // namespace truestep::gpu::bench
