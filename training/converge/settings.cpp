#include <scape/training/convergence.hpp>

#include <numeric>

namespace scape::training {

/// A text that a small model learns in seconds and that the trigram does not: spans are copied from three
/// symbols back. Everything that a training has is in it, in little: micro-batches, buckets, a density that
/// falls, clipping, decay, norms that are always dense, a restart from a checkpoint, three ranks, of which
/// no sum of two has the bits, and a size that they do not divide.
ConvergeSettings usual_convergence(problem::Payload payload, const problem::Groups& groups) {
    ConvergeSettings settings;
    settings.text =
        "synthetic:1,symbols=13,kinds=3,successors=4,nearest=3,farthest=3,begins=12288,ends=2048,"
        "learned=131072,measured=16384";
    Plan& plan = settings.plan;
    plan.shape = {.symbols = 13, .context = 32, .width = 16, .layers = 1, .heads = 2};
    plan.ranks = groups.empty() ? 3 : std::reduce(groups.begin(), groups.end());
    plan.steps = 320;
    plan.batch = 4;
    plan.learning_rate = 0.03;
    plan.warm_up = 40;
    plan.measure_every = 40;
    plan.measured_windows = 128;
    plan.density_warm_up = 40;
    plan.hyper.clip_norm = 0.5;
    plan.hyper.payload = payload;
    plan.hyper.groups = groups;
    settings.restart_at = 161;
    return settings;
}

} // namespace scape::training
