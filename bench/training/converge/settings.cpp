#include <truestep/training/convergence.hpp>

#include <algorithm>
#include <stdexcept>

namespace truestep::training {

/// A text that a small model learns in seconds and a trigram does not: spans are copied from three
/// symbols back. The run has a small form of everything in a training: micro-batches, buckets, a
/// density that falls, norms that are always dense, and a restart from a checkpoint. The system
/// adds the rest.
ConvergeSettings usual_convergence(const gate::Learning& learning, const std::string& setting) {
    const auto found = std::ranges::find(learning.settings, setting, &gate::Learning::Setting::name);
    if (found == learning.settings.end())
        throw std::logic_error("there is no setting '" + setting + "' to train in");
    ConvergeSettings settings;
    settings.learning = learning;
    settings.setting = *found;
    settings.text =
        "synthetic:1,symbols=13,kinds=3,successors=4,nearest=3,farthest=3,begins=12288,ends=2048,"
        "learned=131072,measured=16384";
    Plan& plan = settings.plan;
    plan.shape = {.symbols = 13, .context = 32, .width = 16, .layers = 1, .heads = 2};
    plan.ranks = found->ranks;
    plan.steps = 320;
    plan.batch = 4;
    plan.learning_rate = found->learning_rate;
    plan.warm_up = 40;
    plan.measure_every = 40;
    plan.measured_windows = 128;
    plan.density_warm_up = 40;
    plan.hyper = found->hyper;
    settings.restart_at = 161;
    return settings;
}

} // namespace truestep::training
