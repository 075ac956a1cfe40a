#pragma once

// One rank of your own optimizer, behind the interface of the gate.

#include <bit>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <truestep/distributed/scape/checkpoint.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/properties/scape/implementation.hpp>

namespace at_home {

namespace properties = truestep::properties::scape;
using truestep::distributed::Communicator;

/// >>> YOURS GOES HERE <<<  One rank of it. The one that stands here is this project's own, so that the
/// example runs.
using YourOptimizer = truestep::distributed::scape::Scape;

/// A typical bug: the gradient loses 16 bits, as in bfloat16.
inline float truncated(float value) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff'0000U);
}

/// The interface of one rank. The ranks are threads here, so they share your static variables.
class Wrapped final : public properties::RankUnderTest {
  public:
    /// The setup has the tensors, segments with their owners, hyper-parameters, density schedule
    /// and initial parameters; all of them change from case to case. Bytes sent through the
    /// communicator are counted.
    Wrapped(const properties::Setup& setup, Communicator& communicator, bool breaks)
        : breaks_(breaks), communicator_(communicator),
          yours_(setup.problem, setup.ranges, setup.density,
                 truestep::distributed::scape::make_host_backend(setup.problem, setup.parameters, 1),
                 communicator, {}) {}

    /// A gradient that has to be refused must throw distributed::RefusedStep on all ranks;
    /// translate your error to it.
    void step(std::span<const float> gradient, double learning_rate) override {
        std::vector<float> mine(gradient.begin(), gradient.end());
        if (breaks_)
            for (float& value : mine)
                value = truncated(value);
        yours_.step(mine, learning_rate);
    }

    /// From a device: copy to the host here. In full length, with +0 where you store nothing.
    properties::ObservedState view() override {
        const auto w = yours_.parameters();
        const auto e = yours_.residual();
        return {yours_.steps(),
                {w.begin(), w.end()},
                yours_.moment(),
                {e.begin(), e.end()},
                bytes(yours_.mask())};
    }
    std::vector<std::uint8_t> coming() override { return bytes(yours_.coming_mask()); }

    void save(const std::filesystem::path& folder) override {
        static_cast<void>(truestep::distributed::scape::save_checkpoint(yours_, communicator_, folder));
    }
    void restore(const std::filesystem::path& folder) override {
        const auto latest = truestep::distributed::scape::latest_checkpoint(folder);
        if (!latest)
            throw truestep::Error(folder.string() + " holds no checkpoint");
        truestep::distributed::scape::restore_checkpoint(yours_, communicator_, *latest);
    }

  private:
    /// Bit i is (byte i/8 >> i%8) & 1.
    static std::vector<std::uint8_t> bytes(const truestep::distributed::Mask& mask) {
        std::vector<std::uint8_t> all(static_cast<std::size_t>((mask.size() + 7) / 8));
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] = static_cast<std::uint8_t>(mask.words()[i / 8] >> (i % 8 * 8));
        return all;
    }

    bool breaks_;
    Communicator& communicator_;
    YourOptimizer yours_;
};

} // namespace at_home
