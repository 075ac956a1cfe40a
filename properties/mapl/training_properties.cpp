// Properties of the training of A.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>

#include "family.hpp"
#include "resumed_scenario.hpp"

namespace truestep::properties::mapl {

namespace {

const Floats& shown_subspace(const std::vector<RankRecording>& seen, Index boundary, Index step) {
    return seen[static_cast<std::size_t>(boundary)].at(key(step, "s.A"));
}

/// The size of a step's gradient's share in m, before it is projected.
double taken(const Trial& trial, Index boundary, Index step = 0) {
    const Floats& g = trial.seen[static_cast<std::size_t>(boundary)].at(key(step, "s.gA"));
    return (1.0 - trial.scenario.settings(boundary, Side::sender).beta) *
           matrix_of(g, trial.run.rank).norm();
}

// 1. A stays on the manifold.
void manifold(Trial& trial) {
    trial.seen = trial.play(trial.scenario);
    const Index r = trial.run.rank;
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary) {
        double before = 0.0;
        for (Index step = 0; step <= trial.run.steps; ++step) {
            const Matrix<double> A = matrix_of(shown_subspace(trial.seen, boundary, step), r);
            const double off =
                verify::mapl::spectral_norm(A.transpose() * A - Matrix<double>::Identity(r, r));
            const double limit = verify::mapl::manifold_limit(
                trial.scenario.settings(boundary, Side::sender), trial.scenario.rate, before);
            before = off;
            trial.judged.counts.share_of_limit = std::max(trial.judged.counts.share_of_limit, off / limit);
            trial.expect(off <= limit, step, [&] {
                return boundary_text(boundary, "before " + key(step, "|A^T A - I| is ") + shortest(off) +
                                                   ", and the limit is " + shortest(limit));
            });
        }
    }
}
Case longer(Case run) {
    run.steps = std::max<Index>(run.steps, 10);
    run.tokens = std::min<Index>(run.tokens, 3);
    run.restart = 0;
    return run;
}

// 6. From rest m is a multiple of gR, which is tangent.
void tangent_moment(Trial& trial) {
    trial.seen = trial.play(trial.scenario);
    const Index r = trial.run.rank;
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary) {
        const RankRecording& sender = trial.seen[static_cast<std::size_t>(boundary)];
        const Matrix<double> A = matrix_of(sender.at(key(0, "s.A")), r);
        const Matrix<double> m = matrix_of(sender.at(key(1, "s.m")), r);
        const Matrix<double> both = A.transpose() * m + m.transpose() * A;
        const Settings settings = trial.scenario.settings(boundary, Side::sender);
        const double g = matrix_of(sender.at(key(0, "s.gA")), r).norm();
        trial.near(Matrix<double>::Zero(r, r), both,
                   2.0 * manifold_tolerance(settings.width, r) * (1.0 - settings.beta) * g, 0,
                   boundary_text(boundary, "A^T m + m^T A after one step"));
    }
}
Case projected_once(Case run) {
    run.order = Order::project_first;
    run.steps = 1;
    return run;
}

/// An r x r matrix that permutes columns and flips some signs.
Matrix<double> permutation(Index rank) {
    Matrix<double> made = Matrix<double>::Zero(rank, rank);
    for (Index column = 0; column < rank; ++column)
        made(column, (column + 1) % rank) = column % 2 == 0 ? -1.0 : 1.0;
    return made;
}

/// An r x r rotation of neighbouring columns, by angles from the seed.
Matrix<double> rotation(Index rank, std::uint64_t seed) {
    Matrix<double> made = Matrix<double>::Identity(rank, rank);
    for (Index column = 0; column + 1 < rank; ++column) {
        const auto drawn = problem::mix64(seed + static_cast<std::uint64_t>(column) + 1);
        const double angle = 0x1p-64 * static_cast<double>(drawn) * 2.0 * std::numbers::pi;
        const Matrix<double> one = made.col(column);
        const Matrix<double> two = made.col(column + 1);
        made.col(column) = std::cos(angle) * one - std::sin(angle) * two;
        made.col(column + 1) = std::sin(angle) * one + std::cos(angle) * two;
    }
    return made;
}

/// The product A O.
Floats turned(const Floats& a, const Matrix<double>& by) {
    return floats_of((matrix_of(a, by.rows()) * by).cast<float>());
}

/// That step only, from the recorded state before it, with A O and m O.
Scenario turned_before(const Trial& trial, Index step, const Matrix<double>& by) {
    Scenario other = resumed_before(trial, step);
    other.run.steps = 1;
    other.state = [inner = other.state, by](Index boundary, Side side) {
        EndState state = inner(boundary, side);
        state.a = turned(state.a, by);
        state.m = turned(state.m, by);
        return state;
    };
    return other;
}

/// A bound on the size of what is summed into m, whatever cancels in the sum: with rotated columns it
/// rounds differently.
double summed(const Trial& trial, Index boundary, Index step) {
    const auto b = static_cast<std::size_t>(boundary);
    const Boundary<double> sides = shown_boundary<double>(trial, boundary, step);
    const double beta = trial.scenario.settings(boundary, Side::sender).beta;
    double sum = 0.0;
    for (Index micro = 0; micro < trial.run.micro; ++micro) {
        double q = matrix_of(trial.seen[b].at(key(step, micro, "X")), trial.run.width).norm();
        if (!sides.p.none())
            q += (sides.p.gathered(ids_of(trial, step, micro)) * sides.p.P).norm();
        sum += 2.0 * q * matrix_of(trial.seen[b + 1].at(key(step, micro, "G")), trial.run.width).norm();
    }
    return beta * matrix_of(trial.seen[b].at(key(step, "s.m")), trial.run.rank).norm() + (1.0 - beta) * sum;
}

void turned_step(Trial& trial, Index step) {
    const Index r = trial.run.rank;
    const bool rotated = r > 1 && (trial.run.seed + step) % 2 == 1;
    const Matrix<double> by =
        rotated ? rotation(r, static_cast<std::uint64_t>(trial.run.seed + step)) : permutation(r);
    trial.judged.kind(rotated, "rotated");
    const std::vector<RankRecording> seen = trial.play(turned_before(trial, step, by));
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary) {
        const auto b = static_cast<std::size_t>(boundary);
        const Settings settings = trial.scenario.settings(boundary, Side::sender);
        for (Index micro = 0; micro < trial.run.micro; ++micro) {
            const std::string what = key(step, micro, "Xhat");
            const Matrix<double> one = matrix_of(trial.seen[b + 1].at(what), trial.run.width);
            const double size = matrix_of(trial.seen[b].at(key(step, micro, "X")), trial.run.width).norm();
            trial.near(one, matrix_of(seen[b + 1].at(key(0, micro, "Xhat")), trial.run.width),
                       manifold_tolerance(settings.width, r) * (1.0 + size + one.norm()), step,
                       boundary_text(boundary, what + " with A turned"));
        }
        const double behind = rotated ? summed(trial, boundary, step) : taken(trial, boundary, step);
        const double limit = 2.0 * verify::mapl::next_subspace(
                                       settings, shown_subspace(trial.seen, boundary, step),
                                       trial.seen[b].at(key(step + 1, "s.m")), trial.scenario.rate, behind)
                                       .limit;
        trial.near(matrix_of(shown_subspace(trial.seen, boundary, step + 1), r) * by,
                   matrix_of(shown_subspace(seen, boundary, 1), r), limit, step,
                   boundary_text(boundary, "A after " + key(step, "a turned A and m")));
    }
}

// 8. A -> A O, m -> m O: Xhat stays, and the training turns along, at each step of a run.
void turned_subspace(Trial& trial) {
    trial.seen = trial.play(trial.scenario);
    for (Index step = 0; step < trial.run.steps; ++step)
        turned_step(trial, step);
}
Case goes_on(Case run) {
    run = nothing_lost(run); // the other Z is rounded differently
    run.restart = 0;
    return run;
}

/// The reference's second step of a run from rest, from the recorded subspaces and gradients. It does not
/// use the recorded m.
verify::mapl::Judgement second_step(const Trial& trial, const std::vector<RankRecording>& seen,
                                    Index boundary, const Settings& settings) {
    const RankRecording& sender = seen[static_cast<std::size_t>(boundary)];
    const Index r = trial.run.rank;
    Matrix<double> m = Matrix<double>::Zero(trial.run.width, r);
    double summed = 0.0;
    for (const Index step : {0, 1}) {
        const Matrix<double> g = matrix_of(sender.at(key(step, "s.gA")), r);
        m = moment<double>(settings, matrix_of(sender.at(key(step, "s.A")), r), m, g);
        summed += (1.0 - settings.beta) * g.norm();
    }
    return verify::mapl::next_subspace(settings, sender.at(key(1, "s.A")), floats_of(m.cast<float>()),
                                       trial.scenario.rate, summed);
}

// 18. From rest the two orders take the same first step but different second ones. A must differ, not only
// m, which one of them projects from the first step on.
void orders(Trial& trial) {
    trial.scenario.rate = 0.25; // the orders part by how far A moves in the first step
    Scenario other = trial.scenario;
    other.settings = [inner = trial.scenario.settings](Index boundary, Side side) {
        Settings settings = inner(boundary, side);
        settings.order = Order::momentum_first;
        return settings;
    };
    trial.seen = trial.play(trial.scenario);
    const std::vector<RankRecording> seen = trial.play(other);
    const Index r = trial.run.rank;
    bool part = true;
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary) {
        const auto b = static_cast<std::size_t>(boundary);
        const Settings settings = trial.scenario.settings(boundary, Side::sender);
        const double limit =
            2.0 * verify::mapl::next_subspace(settings, shown_subspace(trial.seen, boundary, 0),
                                              trial.seen[b].at(key(1, "s.m")), trial.scenario.rate,
                                              taken(trial, boundary))
                      .limit;
        trial.near(matrix_of(shown_subspace(trial.seen, boundary, 1), r),
                   matrix_of(shown_subspace(seen, boundary, 1), r), limit, 0,
                   boundary_text(boundary, "A after one step in the other order"));
        const verify::mapl::Judgement one = second_step(trial, trial.seen, boundary, settings);
        const verify::mapl::Judgement two =
            second_step(trial, seen, boundary, other.settings(boundary, Side::sender));
        const double unsure = one.limit + two.limit;
        if ((one.a - two.a).norm() <= 2.0 * unsure) { // rounding may hide it
            part = false;
            continue;
        }
        const double apart = (matrix_of(shown_subspace(trial.seen, boundary, 2), r) -
                              matrix_of(shown_subspace(seen, boundary, 2), r))
                                 .norm();
        trial.expect(apart > unsure, 1, [&] {
            return boundary_text(boundary, "the order of projection and momentum moves A in step 2 by " +
                                               shortest(apart) + ", and the limit is " + shortest(unsure));
        });
    }
    trial.judged.kind(part, "orders that part");
}
Case two_steps_of_the_first_order(Case run) {
    run = no_restart(run);
    run.order = Order::project_first;
    run.data = DataClass::normal;
    run.steps = 2;
    run.rank = std::max<Index>(run.rank, 2);
    run.width = std::max<Index>(run.width, run.rank + 2);
    run.micro = std::max<Index>(run.micro, 2);
    run.tokens = std::max<Index>(run.tokens, 3);
    if (run.codewords > 0) { // enough that most vectors have a nearer one than 0
        run.codewords = 8;
        run.subsets = run.subsets > 1 ? 4 : 1;
    }
    return run;
}

/// Whether anything recorded differs.
bool differ(const std::vector<RankRecording>& one, const std::vector<RankRecording>& other) {
    for (std::size_t rank = 0; rank < one.size(); ++rank)
        if (one[rank].values != other[rank].values)
            return true;
    return false;
}

// 17. Every setting has an effect.
void settings_matter(Trial& trial) {
    trial.seen = trial.play(trial.scenario);
    const auto differs = [&](const Scenario& scenario, const std::vector<RankRecording>& seen,
                             const std::string& what, const std::function<void(Settings&)>& change) {
        Scenario other = scenario;
        other.settings = [inner = scenario.settings, change](Index boundary, Side side) {
            Settings settings = inner(boundary, side);
            change(settings);
            return settings;
        };
        trial.expect(differ(seen, trial.play(other)), 0,
                     [&] { return "another " + what + " changes nothing"; });
    };
    const auto matters = [&](const std::string& what, const std::function<void(Settings&)>& change) {
        differs(trial.scenario, trial.seen, what, change);
    };
    matters("order", [](Settings& settings) { settings.order = Order::momentum_first; });
    matters("beta", [](Settings& settings) { settings.beta = 0.25; });
    matters("number of iterations of the direction",
            [](Settings& s) { s.direction_iterations = s.direction_iterations == 3 ? 2 : 3; });
    // A slow step leaves so little to retract that one iteration does it to the last bit.
    Scenario fast = trial.scenario;
    fast.rate = 0.25; // at 0.5 A may be so far off that a receiver over C refuses it
    differs(fast, trial.play(fast), "number of iterations of the retraction",
            [](Settings& s) { s.retraction_iterations = s.retraction_iterations == 1 ? 2 : 1; });
    matters("payload", [](Settings& settings) {
        settings.payload = settings.payload == Payload::fp32 ? Payload::bf16 : Payload::fp32;
    });
    if (trial.run.codewords > 0) {
        matters("number of codewords", [](Settings& s) { s.quantization.codewords *= 2; });
        matters("number of groups",
                [](Settings& s) { s.quantization.groups = s.quantization.groups == 1 ? s.rank : 1; });
        matters("number of rounds", [](Settings& s) { s.quantization.rounds += 1; });
        matters("number of subsets",
                [](Settings& s) { s.quantization.subsets = s.quantization.subsets == 1 ? 8 : 1; });
        matters("decay", [](Settings& s) { s.quantization.decay = 0.25; });
    }
    if (trial.run.anchors != Anchors::none)
        matters("seed of P", [](Settings& settings) { settings.seed += 1; });
    Scenario other = trial.scenario;
    other.rate = 0.03125;
    trial.expect(differ(trial.seen, trial.play(other)), 0, [] { return "another rate changes nothing"; });
}

} // namespace

std::vector<gate::Property> training_properties() {
    return {property(1, "manifold", "A stays on the manifold, within the bound of its retraction.",
                     manifold, {"compressed"}, longer),
            property(6, "tangent", "The gradient that A follows is tangent to the manifold.",
                     tangent_moment, {"compressed"}, projected_once),
            property(8, "turned", "A and A O send the same, and each step trains them alike.",
                     turned_subspace, {"compressed", "several steps", "rotated"}, goes_on),
            property(17, "settings", "Every setting matters.", settings_matter, {"anchors", "codewords"},
                     two_steps_of_the_first_order),
            property(18, "orders", "The two orders of SPEL part at step 2 and not before.", orders,
                     {"several boundaries", "orders that part"}, two_steps_of_the_first_order)};
}

} // namespace truestep::properties::mapl
