// Properties of what passes a boundary, forward and backward.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "family.hpp"
#include "quantized_message.hpp"

namespace truestep::properties::mapl {

namespace {

/// The order in which both sides of a boundary take gradients back.
std::vector<Index> order_back(const Case& run) {
    std::vector<Index> order;
    for (const Turn& turn : turns(run.schedule, 0, 2, run.micro))
        if (!turn.forward)
            order.push_back(turn.micro);
    return order;
}

/// Runs one step of a boundary by the reference and compares it with the recording: bit for bit if all sums
/// are exact, else each value within its bound.
template <class T, class Compare>
Gradients<T> through(Trial& trial, Index boundary, Index step, const Compare& compare) {
    const Case& run = trial.run;
    const auto b = static_cast<std::size_t>(boundary);
    const Boundary<T> reference = shown_boundary<T>(trial, boundary, step);
    const auto read = [&](std::size_t rank, Index micro, const char* what) {
        const Floats& values = trial.seen[rank].at(key(step, micro, what));
        Matrix<T> made(static_cast<Index>(values.size()) / run.width, run.width);
        for (Index i = 0; i < made.size(); ++i)
            made.data()[i] = static_cast<T>(static_cast<double>(values[static_cast<std::size_t>(i)]));
        return made;
    };
    std::optional<FollowedBooks<T>> books;
    if (run.codewords > 0)
        books.emplace(trial, boundary, step);
    std::vector<Forward<T>> went;
    for (Index micro = 0; micro < run.micro; ++micro) {
        const Matrix<T> X = read(b, micro, "X");
        Forward<T> forward = reference.forward(X, ids_of(trial, step, micro));
        if (books) {
            forward.Z = books->follow(times(forward.Q, reference.A), micro);
            forward.Xhat = reference.decompressed(forward.Z, forward.ids);
        } else {
            compare(forward.Z, trial.sent(trial.seen, boundary, step, micro, true).values, micro, "Z");
        }
        compare(forward.Xhat, trial.seen[b + 1].at(key(step, micro, "Xhat")), micro, "Xhat");
        went.push_back(std::move(forward));
    }
    if (books)
        books->end();
    Gradients<T> gradients = reference.no_gradients();
    for (const Index micro : order_back(run)) {
        const Backward<T> backward =
            reference.backward(read(b + 1, micro, "G"), went[static_cast<std::size_t>(micro)], gradients);
        compare(backward.dZ, trial.sent(trial.seen, boundary, step, micro, false).values, micro, "dZ");
        compare(backward.dX, trial.seen[b].at(key(step, micro, "dX")), micro, "dX");
    }
    return gradients;
}

bool sums_are_exact(const Trial& trial, Index boundary, Index step) {
    const auto b = static_cast<std::size_t>(boundary);
    const RankRecording& sender = trial.seen[b];
    const RankRecording& receiver = trial.seen[b + 1];
    const bool fine = trial.run.payload == Payload::bf16;
    bool few = few_bits(sender.at(key(step, "s.A"))) && few_bits(sender.at(key(step, "s.E"))) &&
               few_bits(receiver.at(key(step, "r.E"))) && trial.run.dyadic() &&
               trial.run.tokens * trial.run.micro <= (fine ? 64 : 1024) && trial.run.width <= 64;
    for (Index micro = 0; few && micro < trial.run.micro; ++micro)
        few = few_bits(sender.at(key(step, micro, "X")), fine ? 64.0F : 8.0F) &&
              few_bits(receiver.at(key(step, micro, "G")));
    return few;
}

void as_the_reference(Trial& trial, Index boundary, Index step) {
    const auto b = static_cast<std::size_t>(boundary);
    const RankRecording& sender = trial.seen[b];
    const RankRecording& receiver = trial.seen[b + 1];
    const bool shares = trial.run.anchors == Anchors::shared;
    const auto name_of = [&](Index micro, const char* what) {
        return boundary_text(boundary, key(step, micro, what));
    };
    const auto sums = [&](const auto& gradients, const auto& compare) {
        compare(gradients.of_basis(), sender.at(key(step, "s.gA")), 0, "gradient of A");
        compare(shares ? gradients.of_anchors() : gradients.dEp, sender.at(key(step, "s.dE")), 0,
                "the sender's dE");
        compare(shares ? gradients.of_anchors() : gradients.dEq, receiver.at(key(step, "r.dE")), 0,
                "the receiver's dE");
    };
    bool exact = sums_are_exact(trial, boundary, step);
    if (exact && trial.run.codewords > 0)
        exact = codewords_are_exact(trial, boundary, step);
    if (exact) {
        const auto compare = [&](const Matrix<float>& expected, const Floats& actual, Index micro,
                                 const char* what) {
            trial.same(floats_of(expected), actual, step, name_of(micro, what), "the reference's");
        };
        sums(through<float>(trial, boundary, step, compare), compare);
    } else {
        const auto compare = [&](const Matrix<verify::Bounded>& expected, const Floats& actual, Index micro,
                                 const char* what) {
            trial.near(expected, actual, step, name_of(micro, what));
        };
        sums(through<verify::Bounded>(trial, boundary, step, compare), compare);
    }
}

// 0. Each step, from the recorded state before it.
void whole_run_as_the_reference(Trial& trial) {
    const Index r = trial.run.rank;
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary)
        for (Index step = 0; step < trial.run.steps; ++step) {
            as_the_reference(trial, boundary, step);
            const RankRecording& sender = trial.seen[static_cast<std::size_t>(boundary)];
            const Settings settings = trial.scenario.settings(boundary, Side::sender);
            const Floats& a = sender.at(key(step, "s.A"));
            const Floats& m = sender.at(key(step + 1, "s.m"));
            trial.near(moment(settings, bounded_of(a, r), bounded_of(sender.at(key(step, "s.m")), r),
                              bounded_of(sender.at(key(step, "s.gM")), r)),
                       m, step, boundary_text(boundary, "m after " + key(step, "SPEL")));
            const verify::mapl::Judgement next =
                verify::mapl::next_subspace(settings, a, m, trial.scenario.rate);
            const auto [off, limit] = next.greatest(matrix_of(sender.at(key(step + 1, "s.A")), r));
            trial.within(off, limit, step, boundary_text(boundary, "A after " + key(step, "SPEL")));
        }
}

void equals_the_reference(Trial& trial) {
    if (trial.run.micro == 0) // A follows the m that it begins with
        trial.scenario.other_start = [run = trial.run](int, Side, EndState& state) {
            state.m = synthetic(run, 9100, 0, 0, static_cast<Index>(state.m.size()));
        };
    trial.seen = trial.play(trial.scenario);
    trial.each_replica(whole_run_as_the_reference);
}

Case any_batches(Case run) {
    run.micro = run.seed % 16 == 6 ? 0 : run.micro;
    return of_unequal_batches(run);
}

/// Compares Xhat with X: equal, up to how far A and P are from orthonormal.
void comes_back(Trial& trial, Index boundary, Index step, const char* why) {
    const auto b = static_cast<std::size_t>(boundary);
    const Boundary<double> sides = shown_boundary<double>(trial, boundary, step);
    const Settings settings = trial.scenario.settings(boundary, Side::sender);
    const bool exact = sums_are_exact(trial, boundary, step);
    for (Index micro = 0; micro < trial.run.micro; ++micro) {
        const Floats& x = trial.seen[b].at(key(step, micro, "X"));
        const Floats& back = trial.seen[b + 1].at(key(step, micro, "Xhat"));
        const std::string what = boundary_text(boundary, key(step, micro, "Xhat"));
        if (exact) {
            trial.same(x, back, step, what, std::string("X, ") + why);
            continue;
        }
        const Matrix<double> X = matrix_of(x, trial.run.width);
        const double anchored =
            sides.p.none() ? 0.0 : (sides.p.gathered(ids_of(trial, step, micro)) * sides.p.P).norm();
        trial.near(X, matrix_of(back, trial.run.width),
                   4.0 * verify::mapl::manifold_limit(settings, trial.scenario.rate) *
                       (X.norm() + anchored),
                   step, what + ", which is to be X, " + why);
    }
}

// 2. r = D.
void lossless(Trial& trial) {
    trial.seen = trial.play(trial.scenario);
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary)
        for (Index step = 0; step < trial.run.steps; ++step)
            comes_back(trial, boundary, step, "for the rank is full");
}
Case full_rank(Case run) {
    run = nothing_lost(run);
    run.width = run.rank;
    run.anchors = run.anchors == Anchors::two ? Anchors::shared : run.anchors;
    return run;
}

// 3. What the anchor and A span passes unchanged.
void spanned(Trial& trial) {
    const Case run = trial.run;
    const Scenario begun = trial.scenario;
    trial.scenario.stage = [run, begun](int stage) -> std::unique_ptr<Stage> {
        if (stage + 1 == run.workers)
            return made_up_stage(run, stage);
        return sends_first(made_up_stage(run, stage), [run, begun, stage](Index micro) {
            const EndState state = begun.state(stage, Side::sender);
            Floats rows = state.rows;
            if (rows.empty() && run.anchors != Anchors::none)
                rows = anchor_rows(begun.settings(stage, Side::sender), Side::sender);
            const std::vector<Id> ids = begun.ids(0, micro);
            const auto r = static_cast<std::size_t>(run.rank);
            const auto d = static_cast<std::size_t>(run.width);
            const Floats z = synthetic(run, 9000, 0, micro, run.tokens * run.rank);
            Floats x(ids.size() * d);
            for (std::size_t i = 0; i < x.size(); ++i) {
                double sum = 0.0;
                for (std::size_t k = 0; k < r; ++k) {
                    sum += static_cast<double>(z[i / d * r + k] * state.a[i % d * r + k]);
                    if (!rows.empty())
                        sum += static_cast<double>(state.anchor[ids[i / d] * r + k] * rows[k * d + i % d]);
                }
                x[i] = static_cast<float>(sum);
            }
            return x;
        });
    };
    trial.seen = trial.play(trial.scenario);
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary)
        comes_back(trial, boundary, 0, "for anchor and A span it");
}
Case equal_anchors(Case run) {
    run = nothing_lost(run);
    run.anchors = run.anchors == Anchors::two ? Anchors::fixed : run.anchors;
    return run;
}

/// <Xhat_i, X_j> is <X_i, Xhat_j> for any two tokens.
void is_symmetric(Trial& trial, Index boundary) {
    const auto b = static_cast<std::size_t>(boundary);
    const Settings settings = trial.scenario.settings(boundary, Side::sender);
    for (Index micro = 0; micro < trial.run.micro; ++micro) {
        const Matrix<double> X = matrix_of(trial.seen[b].at(key(0, micro, "X")), settings.width);
        const Matrix<double> back = matrix_of(trial.seen[b + 1].at(key(0, micro, "Xhat")), settings.width);
        const Matrix<double> both = X * back.transpose();
        trial.near(both.transpose(), both,
                   manifold_tolerance(settings.width, settings.rank) * X.squaredNorm(), 0,
                   boundary_text(boundary, key(0, micro, "X Xhat^T, which is to be symmetric")));
    }
}

// 4. A A^T is a projector: symmetric, and what has passed once passes unchanged.
void projector(Trial& trial) {
    const Case run = trial.run;
    trial.seen = trial.play(trial.scenario);
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary)
        is_symmetric(trial, boundary);
    Scenario again = trial.scenario;
    again.stage = [run, first = trial.seen](int stage) -> std::unique_ptr<Stage> {
        if (stage + 1 == run.workers)
            return made_up_stage(run, stage);
        return sends_first(made_up_stage(run, stage), [first, stage](Index micro) {
            return first[static_cast<std::size_t>(stage) + 1].at(key(0, micro, "Xhat"));
        });
    };
    trial.seen = trial.play(again);
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary)
        comes_back(trial, boundary, 0, "for it has been through before");
}
Case no_anchors(Case run) {
    run = nothing_lost(run);
    run.anchors = Anchors::none;
    run.tokens = std::max<Index>(run.tokens, 2);
    return run;
}

/// <G, Xhat> over a step's micro-batches, in plain double and in its own order.
double paired(const Trial& trial, Index boundary, const Boundary<double>& sides, Index step,
              Index only = -1, const Matrix<double>* other_x = nullptr) {
    const auto b = static_cast<std::size_t>(boundary);
    double sum = 0.0;
    for (Index micro = 0; micro < trial.run.micro; ++micro) {
        if (only >= 0 && micro != only)
            continue;
        Matrix<double> q = other_x != nullptr
                               ? *other_x
                               : matrix_of(trial.seen[b].at(key(step, micro, "X")), trial.run.width);
        const Matrix<double> g = matrix_of(trial.seen[b + 1].at(key(step, micro, "G")), trial.run.width);
        const std::vector<Id> ids = trial.scenario.ids(step, micro);
        for (Index token = 0; token < q.rows(); ++token) {
            const auto id = static_cast<Index>(ids[static_cast<std::size_t>(token)]);
            if (!sides.p.none())
                q.row(token) -= sides.p.E.row(id) * sides.p.P;
            sum += (q.row(token) * sides.A).dot(g.row(token) * sides.A);
            if (!sides.q.none())
                sum += (sides.q.E.row(id) * sides.q.P).dot(g.row(token));
        }
    }
    return sum;
}

/// Central differences in each entry, with steps of 1: <G, Xhat> has degree two at most.
template <class Value>
Matrix<double> central(Matrix<double>& at, const Value& value_of) {
    Matrix<double> made(at.rows(), at.cols());
    for (Index i = 0; i < at.size(); ++i) {
        const double kept = at.data()[i];
        at.data()[i] = kept + 1.0;
        const double up = value_of();
        at.data()[i] = kept - 1.0;
        made.data()[i] = (up - value_of()) / 2.0;
        at.data()[i] = kept;
    }
    return made;
}

// 5. All gradients equal finite differences.
void gradients(Trial& trial) {
    trial.seen = trial.play(trial.scenario);
    const Case& run = trial.run;
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary) {
        const auto b = static_cast<std::size_t>(boundary);
        Boundary<double> sides = shown_boundary<double>(trial, boundary, 0);
        const auto check = [&](const Matrix<double>& expected, const Floats& actual,
                               const std::string& what) {
            trial.near(expected, matrix_of(actual, expected.cols()), 1e-4 * (1.0 + expected.norm()), 0,
                       boundary_text(boundary, what + ", beside finite differences"));
        };
        const auto whole = [&] { return paired(trial, boundary, sides, 0); };
        check(central(sides.A, whole), trial.seen[b].at(key(0, "s.gA")), "the gradient of A");
        for (Index micro = 0; micro < run.micro; ++micro) {
            Matrix<double> x = matrix_of(trial.seen[b].at(key(0, micro, "X")), run.width);
            check(central(x, [&] { return paired(trial, boundary, sides, 0, micro, &x); }),
                  trial.seen[b].at(key(0, micro, "dX")), key(0, micro, "dX"));
        }
        if (run.anchors == Anchors::two) {
            check(central(sides.p.E, whole), trial.seen[b].at(key(0, "s.dE")), "the sender's dE");
            check(central(sides.q.E, whole), trial.seen[b + 1].at(key(0, "r.dE")), "the receiver's dE");
        }
        if (run.anchors == Anchors::shared) {
            Matrix<double> both = central(sides.p.E, whole);
            both += central(sides.q.E, whole);
            check(both, trial.seen[b].at(key(0, "s.dE")), "dE");
        }
    }
}
Case small_vocabulary(Case run) {
    run = nothing_lost(run); // differences do not see what passes straight through
    run.vocabulary = std::min<Index>(run.vocabulary, 5);
    run.workers = std::min<Index>(run.workers, 3);
    run.steps = 1;
    return run;
}

// 5. A row of dE is the sum over tokens in their order. With unit vectors as P its summands are values of
// G.
void token_order(Trial& trial) {
    const auto rank = static_cast<std::size_t>(trial.run.rank);
    const auto width = static_cast<std::size_t>(trial.run.width);
    trial.scenario.state = [rank, width, inner = trial.scenario.state](Index boundary, Side side) {
        EndState state = inner(boundary, side);
        state.rows.assign(rank * width, 0.0F);
        for (std::size_t i = 0; i < rank; ++i)
            state.rows[i * width + i] = 1.0F;
        return state;
    };
    trial.seen = trial.play(trial.scenario);
    const std::vector<Id> ids = trial.scenario.ids(0, 0);
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary) {
        const RankRecording& receiver = trial.seen[static_cast<std::size_t>(boundary) + 1];
        const Floats& gradient = receiver.at(key(0, 0, "G"));
        Floats sums(static_cast<std::size_t>(trial.run.vocabulary) * rank, 0.0F);
        for (std::size_t token = 0; token < ids.size(); ++token)
            for (std::size_t i = 0; i < rank; ++i)
                sums[ids[token] * rank + i] += gradient[token * width + i];
        trial.same(sums, receiver.at(key(0, "r.dE")), 0, boundary_text(boundary, key(0, "r.dE")),
                   "the sum over tokens in their order");
    }
}
Case many_tokens(Case run) {
    run.anchors = Anchors::two;
    run.data = DataClass::wide; // sums of normal data are exact
    run.tokens = 17 + run.seed % 50;
    run.uneven = 0;
    run.vocabulary = std::min<Index>(run.vocabulary, 3);
    run.micro = 1;
    run.steps = 1;
    run.restart = 0;
    return run;
}

} // namespace

std::vector<gate::Property> boundary_properties() {
    return {property(0, "reference",
                     "All is the reference's: to the bit where sums are exact, else within bounds.",
                     equals_the_reference,
                     {"several boundaries", "several micro-batches", "several steps", "anchors",
                      "compressed", "exact sums", "payload of 16 bits", "codewords", "several rounds",
                      "streamed", "unequal micro-batches"},
                     any_batches, Replicas::any),
            property(2, "lossless", "Full rank: what arrives is what was sent.", lossless, {}, full_rank),
            property(3, "spanned", "What anchor and A span arrives as it was sent.", spanned,
                     {"compressed"}, equal_anchors),
            property(4, "projector",
                     "A boundary is symmetric, and what has come through once comes through as it is.",
                     projector, {"compressed"}, no_anchors),
            property(5, "gradients", "Gradients of X, A and the anchors are those of finite differences.",
                     gradients, {"anchors", "several micro-batches"}, small_vocabulary),
            property(5, "token_order", "Rows of an anchor's gradient are added in the order of tokens.",
                     token_order, {{"anchors", 95}}, many_tokens)};
}

} // namespace truestep::properties::mapl
