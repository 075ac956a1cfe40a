// Lists GASLoC's known bugs, and makes the implementation that has a given one.
#include "planted.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "devices.hpp"
#include "plain_worker.hpp"

namespace truestep::properties::gasloc {

namespace {

/// Trains without a bug, except for the known bugs outside the optimizer.
void train_wrongly(Number known_bug, RankUnderTest& subject, const Scenario& scenario, int worker,
                   Index round) {
    if (known_bug != greatest_steps || scenario.steps(worker, round) == 0) {
        train(subject, scenario, worker, round);
        return;
    }
    // Takes as many steps as the busiest worker, the missing ones with its last gradient.
    const Index own = scenario.steps(worker, round);
    for (Index step = 1; step <= scenario.most_steps(round); ++step)
        static_cast<void>(subject.step(scenario.gradient(worker, round, std::min(own, step)),
                                       scenario.learning_rate(round, step)));
}

RankFactory subjects(Number known_bug) {
    return {
        [=](const Settings& settings, std::span<const float> parameters, distributed::Peers& peers, int) {
            return std::make_unique<PlainWorker>(known_bug, settings, first_state(settings, parameters),
                                                 peers);
        },
        [=](const Settings& settings, const std::filesystem::path& folder, distributed::Peers& peers, int) {
            return std::make_unique<PlainWorker>(known_bug, settings,
                                                 read_plain(known_bug, settings, folder, peers), peers);
        },
        [=](RankUnderTest& subject, const Scenario& scenario, int worker, Index round) {
            train_wrongly(known_bug, subject, scenario, worker, round);
        }};
}

} // namespace

std::vector<gate::KnownBug> known_bugs() {
    std::vector<gate::KnownBug> all{
        {drift_sign, "the drift has the wrong sign", "Training goes uphill. Shows at the first step."},
        {eta_on_x, "eta on x instead of the drift",
         "Models shrink or grow by eta. Needs eta other than 1."},
        {mix_dropped, "the result of the mix is dropped", "Workers never meet. Needs an edge."},
        {alpha_swapped, "alpha and 1 - alpha swapped", "Needs an edge, and alpha other than 1/2."},
        {pairs_twice, "each pair counts twice, as (i,j) and (j,i)", "Mixing is twice as strong."},
        {in_place, "gossip in place: the second neighbour gets what the first has changed",
         "Needs a worker with two neighbours."},
        {as_they_come, "neighbours are added as they come", "Other bits at each run. Needs three of them."},
        {before_never_saved, "y of the last round is never saved", "Momentum grows. Needs two rounds."},
        {before_zero, "y of the last round is zero at the start",
         "The first momentum is the model itself."},
        {before_gossiped, "y is saved after the gossip", "Needs an edge, momentum and two rounds."},
        {momentum_on_theta, "momentum on theta instead of y", "Needs momentum and an edge."},
        {before_not_in_checkpoint, "y of the last round is not in the checkpoint",
         "The first momentum after a restart is lost."},
        {seed_not_restored, "the seed of the graphs is not restored", "Other pairs after a restart."},
        {round_not_restored, "the round is not restored", "The graphs begin again after a restart."},
        {local_round, "the graph of the worker's own count of rounds",
         "Workers that skip one wait for each other. Needs one without inner steps."},
        {odd_not_updated, "the odd worker is left without an update", "Needs one that meets nobody."},
        {odd_with_itself, "the odd worker averages with its own last y", "Needs an odd number."},
        {stale_peer, "the peer's buffer is that of the last round", "Needs two meetings of the same two."},
        {greatest_steps, "H is the greatest over workers", "Needs workers with unequal H."},
        {moments_reset, "inner moments begin again each round", "Needs two rounds of adams or adamw."},
        {bias_by_round, "bias is corrected by rounds instead of inner steps",
         "Needs two inner steps of adams or adamw."},
        {first_rate, "all inner steps have the learning rate of the first", "Needs two inner steps."},
        {bucket_lost, "what does not fill a bucket is never sent", "Needs a size that is no multiple."},
        {last_bucket_everywhere, "the last bucket lands in all", "Needs two buckets."},
        {alone_adds_zeros, "a world of one adds zeros", "One worker alone never moves."},
        {outer_over_nothing, "the outer step goes over no parameters",
         "Workers never meet, eta is not used."},
        {other_starts, "workers start from different weights", "Nobody compares them."},
        {mean_of_neighbours, "the mean over neighbours where the sum was asked",
         "Needs a worker with two neighbours."},
        {weights_ignored, "edges have no weight", "Needs one other than 1."},
        {skipped_not_gossiped, "whoever skips a round sends zeros", "Needs a gradient that is not finite."},
        {skipped_counts, "a skipped round counts as an inner step", "Bias correction is one step ahead."},
        {bad_gradient_taken, "a gradient that is not finite is taken", "The model is lost in one step."},
        {skipped_silently, "a skipped round is not told", "Nobody knows that gradients are bad."},
        {decay_forgotten, "no weight decay in inner steps", "Needs weight decay."},
        {restart_sums, "another number of workers begins with the sum, not the mean", "Needs a restart."},
        {restart_own_steps, "another number of workers begins with the steps of worker 0",
         "Bias correction is behind. Needs unequal H and a restart."},
        {barrier, "all wait for all before a round", "Everybody is as slow as the slowest."},
        {to_everybody, "y goes to everybody", "n-1 times the traffic; results are right."},
        {settings_not_compared, "settings are not compared at the start",
         "Ranks train by different rules."},
        {unstable_accepted, "what diverges is begun", "Disagreement grows without bound."},
        {not_finite_goes_on, "a model that is not finite goes on", "It takes its neighbours along."},
        {gamma_twice, "momentum is added twice", "Needs momentum."},
        {counters_of_rank, "inner steps are counted where none was taken",
         "On all ranks but the first. Needs H = 0."},
        {moments_not_in_checkpoint, "inner moments are not in the checkpoint",
         "Needs a restart of adams or adamw."},
        {eta_twice, "eta is applied twice", "Needs eta other than 1."},
        {edges_one_way, "an edge pulls at its lower end alone", "The mean is not kept. Needs an edge."},
    };
    for (gate::KnownBug& known_bug : known_bugs_on_devices().listed())
        all.push_back(std::move(known_bug));
    all.push_back({restored_steps_kept, "a restore within a round keeps that it is skipped",
                   "The round has no inner steps. Needs a bad gradient before the restore."});
    all.push_back({checkpoints_settings_ignored, "a checkpoint is read though its run had other settings",
                   "Needs a restart with another setting."});
    return all;
}

std::shared_ptr<const gate::Implementation> planted(int number,
                                                    const std::shared_ptr<const gate::Group>& group) {
    const std::string name = gate::name_of_planted(number, known_bugs().size());
    if (known_bugs_on_devices().has(number))
        return device_known_bug(number, name, group);
    return std::make_shared<Workers>(name, subjects(static_cast<Number>(number)), group,
                                     gate::Placement{.names_differences = false});
}

} // namespace truestep::properties::gasloc
