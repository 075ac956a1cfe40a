// Holds a plain worker of averaging with a known bug, such as a sum in place of the mean.
#include "averaging.hpp"

namespace truestep::properties::averaging {

namespace {

using distributed::Communicator;

enum Number { none, sum_for_mean, drift_dropped, averaged_early, step_forgotten, averaged_each_step };

void average(Vector& x, Communicator& ranks, bool divide) {
    const auto count = static_cast<std::size_t>(ranks.size());
    Vector all(count * x.size());
    const std::vector<std::size_t> sizes(count, x.size() * sizeof(float));
    ranks.start_all_gather(distributed::Traffic::payload, x.data(), all.data(), sizes)->wait();
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = all[i];
        for (std::size_t at = i + x.size(); at < all.size(); at += x.size())
            x[i] += all[at];
        if (divide)
            x[i] /= static_cast<float>(ranks.size());
    }
}

} // namespace

void play_with(int known_bug, const Case& run, Communicator& ranks, gate::ShownByRank& seen) {
    Vector x = parameters_of(run);
    const float learning_rate = learning_rate_of(run);
    for (Index round = 0; round < run.rounds; ++round) {
        const Vector begin = x;
        const auto gradients = gradients_of(run, ranks.rank(), round);
        for (std::size_t step = 0; step < gradients.size(); ++step) {
            const bool last = step + 1 == gradients.size();
            if (last && known_bug == averaged_early)
                average(x, ranks, true);
            if (last && known_bug == step_forgotten)
                break;
            for (std::size_t i = 0; i < x.size(); ++i)
                x[i] -= learning_rate * gradients[step][i];
            if (!last && known_bug == averaged_each_step)
                average(x, ranks, true);
        }
        if (known_bug == drift_dropped && ranks.size() > 1 && ranks.rank() == ranks.size() - 1)
            x = begin;
        if (known_bug != averaged_early)
            average(x, ranks, known_bug != sum_for_mean);
        seen.after.push_back(x);
    }
}

std::vector<gate::KnownBug> known_bugs() {
    return {
        {sum_for_mean, "sum in place of mean", "Parameters are P times too large. Needs P >= 2."},
        {drift_dropped, "the last worker's drift dropped",
         "Its local steps never count: the mean is made with what it began the round with. Needs P >= "
         "2."},
        {averaged_early, "averaged before the last local step",
         "Workers part by their last gradients. Needs P >= 2."},
        {step_forgotten, "the last local step forgotten", "Shows at once, with one worker too."},
        {averaged_each_step, "averaged after each local step",
         "Almost the same numbers, but local steps save no traffic. Needs P >= 2 and two local steps."}};
}

} // namespace truestep::properties::averaging
