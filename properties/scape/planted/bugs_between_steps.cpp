// Changes SCAPE's state between two right steps, for the known bugs outside the step.
#include <truestep/properties/scape/planted/bugs_between_steps.hpp>

#include <algorithm>
#include <cmath>

#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/properties/scape/implementations.hpp>

namespace truestep::properties::scape::planted {

namespace {

using distributed::Mask;
using distributed::scape::RankState;
using problem::Index;

std::vector<std::uint8_t> bytes_of(const Mask& mask) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>((mask.size() + 7) / 8));
    for (Index i = 0; i < mask.size(); ++i)
        if (mask.test(i))
            bytes[static_cast<std::size_t>(i / 8)] |= static_cast<std::uint8_t>(1U << (i % 8));
    return bytes;
}

/// Sets range r's bits, place by place, in range r + 1. Always-dense segments stay full.
Mask moved(const Mask& mask, const properties::scape::Setup& setup) {
    Mask result(mask.size());
    const auto& ranges = setup.ranges;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
        const problem::Range& from = ranges[r];
        const problem::Range& to = ranges[(r + 1) % ranges.size()];
        for (Index i = 0; i < to.size(); ++i)
            if (from.size() > 0 && mask.test(from.begin + i % from.size()))
                result.set(to.begin + i);
    }
    for (const problem::Segment& segment : setup.problem.segments)
        if (segment.always_dense)
            result.set_range(segment.begin, segment.end);
    result.count();
    return result;
}

void clip(std::vector<float>& residual, double most) {
    double norm = 0;
    for (const float value : residual)
        norm += static_cast<double>(value) * static_cast<double>(value);
    norm = std::sqrt(norm);
    if (norm <= most)
        return;
    for (float& value : residual)
        value = static_cast<float>(static_cast<double>(value) * (most / norm));
}

class ChangedRank final : public properties::scape::RankUnderTest {
  public:
    ChangedRank(StateChange how, const properties::scape::Setup& setup,
                distributed::Communicator& communicator)
        : how_(how), setup_(setup),
          optimizer_(setup.problem, setup.ranges, setup.density,
                     distributed::scape::make_host_backend(setup.problem, setup.parameters), communicator,
                     {}),
          kept_(setup.problem.layout.size()) {}

    void step(std::span<const float> gradient, double learning_rate) override {
        if (how_ != StateChange::none && optimizer_.steps() > 0)
            tamper();
        optimizer_.step(gradient, learning_rate);
    }
    properties::scape::ObservedState view() override {
        const auto copy = [](std::span<const float> values) {
            return std::vector<float>(values.begin(), values.end());
        };
        return {optimizer_.steps(), copy(optimizer_.parameters()), optimizer_.moment(),
                copy(optimizer_.residual()), bytes_of(optimizer_.mask())};
    }
    std::vector<std::uint8_t> coming() override { return bytes_of(optimizer_.coming_mask()); }
    void save(const std::filesystem::path& /*folder*/) override {}
    void restore(const std::filesystem::path& /*folder*/) override {}

  private:
    void tamper() {
        RankState state = optimizer_.state();
        const Index next = state.step + 1;
        if (how_ == StateChange::mask_never_changes &&
            setup_.density.at(next) == setup_.density.at(next + 1000)) {
            if (kept_.selected() == 0)
                kept_ = state.coming;
            state.coming = kept_;
        }
        if (how_ == StateChange::residual_clipped)
            clip(state.residual, setup_.problem.settings.clip_norm / 100);
        if (how_ == StateChange::choices_moved)
            state.coming = moved(state.coming, setup_);
        optimizer_.restore(state);
    }

    StateChange how_;
    properties::scape::Setup setup_;
    distributed::scape::Scape optimizer_;
    Mask kept_; ///< what stays, once there is one
};

} // namespace

const std::vector<BugBetweenSteps>& bugs_between_steps() {
    static const std::vector<BugBetweenSteps> all{
        {StateChange::mask_never_changes, "tampered-mask",
         "the mask never changes once the density is reached"},
        {StateChange::residual_clipped, "tampered-residual",
         "the residual is clipped, to a hundredth of what a gradient is"},
        {StateChange::choices_moved, "tampered-owner",
         "an owner's choice is set in the next owner's range"}};
    return all;
}

std::shared_ptr<const properties::scape::Implementation>
with_bug_between_steps(const BugBetweenSteps& which, const std::shared_ptr<const gate::Group>& group) {
    return properties::scape::on_ranks({.name = which.name,
                                        .make =
                                            [how = which.how](const properties::scape::Setup& setup,
                                                              distributed::Communicator& communicator) {
                                                return std::make_unique<ChangedRank>(how, setup,
                                                                                     communicator);
                                            },
                                        .unsupported = {{"restart", "it keeps no checkpoints"}}},
                                       group);
}

} // namespace truestep::properties::scape::planted
