// Many segments in one model: without clipping they do not affect each other.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "scopes.hpp"

namespace truestep::properties::scape::scope {

namespace {

using problem::BiasCorrection;

Densities densities_for(int segment, int k1, int k2, int k3) {
    const auto density = [segment](int k) { return k == segment ? 1.0 : density_for(k); };
    return {density(k1), density(k2), density(k3)};
}

/// Calls visit(k1, k2, k3) for all k of a segment. A third mask with all coordinates is left out: it is no
/// choice, and no step uses it.
template <class Visit>
void for_each_k(int segment, Visit visit) {
    for (int k1 = 1; k1 <= segment; ++k1)
        for (int k2 = 1; k2 <= segment; ++k2)
            for (int k3 = 1; k3 <= std::max(1, segment - 1); ++k3)
                visit(k1, k2, k3);
}

constexpr std::array<float, 3> usual_parameters{0.5F, -2.0F, 1.0F};
constexpr std::array<float, 8> first_parameters{-2.0F, -1.0F, -0.5F, 0.0F, 0.5F, 1.0F, 2.0F, -0.0F};

/// All gradients of all ranks at both steps, with each owner.
void add_segments(std::vector<Task>& tasks, const Batch::Shape& shape) {
    constexpr std::uint64_t share = 400'000;
    const std::uint64_t count = power_of_values(steps * shape.workers * shape.segment);
    for (std::uint64_t begin = 0; begin < count; begin += share)
        tasks.emplace_back([shape, begin, end = std::min(count, begin + share)](
                               const SmallScopeHarness& lab, Tally& tally) {
            Batch batch(shape, lab, tally);
            Piece piece;
            piece.parameters = usual_parameters;
            for (std::uint64_t number = begin; number < end && !tally.over(); ++number) {
                Digits digits(number);
                for (auto& of_step : piece.gradients)
                    for (int rank = 0; rank < shape.workers; ++rank)
                        for (int i = 0; i < shape.segment; ++i)
                            of_step[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)] =
                                digits.value();
                for (piece.owner = 0; piece.owner < shape.workers; ++piece.owner)
                    if (shape.segment > 1)
                        batch.add(piece);
                    else
                        for (const float w : first_parameters) {
                            piece.parameters[0] = w;
                            batch.add(piece);
                        }
            }
            batch.flush();
        });
}

/// All gradients of one coordinate at both steps, in either place of a segment of two. The other coordinate
/// has the owner's smallest or largest value, so that the first is on or off each mask whenever that is
/// possible.
void add_coordinates(std::vector<Task>& tasks, const Batch::Shape& shape) {
    tasks.emplace_back([shape](const SmallScopeHarness& lab, Tally& tally) {
        Batch batch(shape, lab, tally);
        Piece piece;
        Drawn drawn(7);
        const std::uint64_t count = power_of_values(steps * shape.workers);
        const auto ranks = static_cast<std::size_t>(shape.workers);
        for (std::uint64_t number = 0; number < count && !tally.over(); ++number)
            for (const std::size_t place : {std::size_t{0}, std::size_t{1}})
                for (const float other : {0.0F, 2.0F})
                    for (piece.owner = 0; piece.owner < shape.workers; ++piece.owner) {
                        Digits digits(number);
                        for (auto& of_step : piece.gradients)
                            for (std::size_t rank = 0; rank < ranks; ++rank) {
                                of_step[rank][place] = digits.value();
                                of_step[rank][1 - place] = drawn.value();
                            }
                        piece.gradients[0][static_cast<std::size_t>(piece.owner)][1 - place] = other;
                        batch.add(piece);
                    }
        batch.flush();
    });
}

/// The first k of these in the order of section 5, as bits.
unsigned chosen(const std::array<float, 3>& c, int n, int k) {
    unsigned bits = 0;
    for (int i = 0; i < n; ++i) {
        int before = 0;
        for (int j = 0; j < n; ++j) {
            const float a = std::abs(c[static_cast<std::size_t>(i)]);
            const float b = std::abs(c[static_cast<std::size_t>(j)]);
            before += b > a || (b == a && j < i) ? 1 : 0;
        }
        bits |= before < k ? 1U << static_cast<unsigned>(i) : 0U;
    }
    return bits;
}

/// A sum over the ranks in which the owner has a given value, with one way to get it. Where sums are exact,
/// the way does not matter.
struct Sum {
    unsigned key;
    std::array<float, 3> by_rank;
};
std::vector<Sum> sums_with(int workers, int owner, float of_owner) {
    std::vector<Sum> result;
    for (std::uint64_t number = 0; number < power_of_values(workers - 1); ++number) {
        Digits digits(number);
        Sum sum{0, {}};
        float total = 0.0F;
        for (int rank = 0; rank < workers; ++rank) {
            const float value = rank == owner ? of_owner : digits.value();
            sum.by_rank[static_cast<std::size_t>(rank)] = value;
            total += value;
        }
        sum.key = static_cast<unsigned>(2.0F * total + 12.0F);
        if (std::none_of(result.begin(), result.end(), [&](const Sum& one) { return one.key == sum.key; }))
            result.push_back(sum);
    }
    return result;
}

/// Every c that an owner can have at the second step, over its segment: on S_1 it comes from the mean of
/// all ranks, elsewhere from its own two gradients. First steps that lead to the same c are tried once.
void add_choices(std::vector<Task>& tasks, const Batch::Shape& shape, int owner, int k1) {
    tasks.emplace_back([shape, owner, k1](const SmallScopeHarness& lab, Tally& tally) {
        const int n = shape.segment;
        const auto me = static_cast<std::size_t>(owner);
        std::array<std::vector<Sum>, values.size()> sums;
        for (std::size_t digit = 0; digit < values.size(); ++digit)
            sums[digit] = sums_with(shape.workers, owner, values[digit]);
        std::vector<bool> seen(std::size_t{1} << 18U, false);
        Batch batch(shape, lab, tally);
        Drawn drawn(11);
        Piece piece;
        piece.owner = owner;
        const auto second_steps = [&] {
            for (std::uint64_t number = 0; number < power_of_values(n) && !tally.over(); ++number) {
                Digits digits(number);
                for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
                    for (std::size_t rank = 0; rank < static_cast<std::size_t>(shape.workers); ++rank)
                        piece.gradients[1][rank][i] = rank == me ? digits.value() : drawn.value();
                batch.add(piece);
            }
        };
        for (std::uint64_t number = 0; number < power_of_values(n) && !tally.over(); ++number) {
            Digits digits(number);
            std::array<std::size_t, 3> of_owner{};
            std::array<float, 3> c{};
            for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
                of_owner[i] = digits.digit();
                c[i] = values[of_owner[i]];
            }
            const unsigned first_mask = chosen(c, n, k1);
            // Coordinate by coordinate: a sum on the mask, and any value off it.
            const std::function<void(int, unsigned)> from = [&](int i, unsigned key) {
                if (i == n) {
                    if (!seen[key]) {
                        seen[key] = true;
                        second_steps();
                    }
                    return;
                }
                const auto at = static_cast<std::size_t>(i);
                if ((first_mask >> at & 1U) == 0) {
                    for (std::size_t rank = 0; rank < static_cast<std::size_t>(shape.workers); ++rank)
                        piece.gradients[0][rank][at] = rank == me ? c[at] : drawn.value();
                    from(i + 1, key * 64 + static_cast<unsigned>(of_owner[at]));
                    return;
                }
                for (const Sum& sum : sums[of_owner[at]]) {
                    for (std::size_t rank = 0; rank < static_cast<std::size_t>(shape.workers); ++rank)
                        piece.gradients[0][rank][at] = sum.by_rank[rank];
                    from(i + 1, key * 64 + 32 + sum.key);
                }
            };
            from(0, 0);
        }
        batch.flush();
    });
}

/// Every first gradient of an owner, from which S_1 and S_2 are made, with four draws of everything else.
void add_first_choices(std::vector<Task>& tasks, const Batch::Shape& shape) {
    tasks.emplace_back([shape](const SmallScopeHarness& lab, Tally& tally) {
        Batch batch(shape, lab, tally);
        Drawn drawn(13);
        Piece piece;
        for (std::uint64_t number = 0; number < 4 * power_of_values(shape.segment); ++number)
            for (piece.owner = 0; piece.owner < shape.workers; ++piece.owner) {
                for (auto& of_step : piece.gradients)
                    for (auto& g : of_step)
                        std::generate(g.begin(), g.end(), [&] { return drawn.value(); });
                Digits digits(number);
                auto& own = piece.gradients[0][static_cast<std::size_t>(piece.owner)];
                std::generate(own.begin(), own.end(), [&] { return digits.value(); });
                batch.add(piece);
            }
        batch.flush();
    });
}

Batch::Shape shape_of(int segment, int workers, const Densities& densities, BiasCorrection correction,
                      bool exact, bool turned = false) {
    return {segment, workers, densities, settings_with(correction, exact), turned};
}

} // namespace

Scope segments(Extent extent) {
    Scope scope{"segments", "", "", {}};
    const auto add = [&](int segment, int workers, BiasCorrection correction, bool exact, bool turned) {
        for_each_k(segment, [&](int k1, int k2, int k3) {
            add_segments(scope.tasks, shape_of(segment, workers, densities_for(segment, k1, k2, k3),
                                               correction, exact, turned));
        });
    };
    for (const BiasCorrection correction : corrections)
        for (const bool exact : {false, true}) {
            add(1, 1, correction, exact, false);
            add(2, 1, correction, exact, false);
            for (const bool turned : {false, true})
                add(1, 2, correction, exact, turned);
        }
    scope.proves =
        "proved for all: segments of 1 coordinate on 1 and 2 ranks and of 2 on 1 (3 corrections, 2 "
        "pairs of betas)";
    if (extent == Extent::all) {
        for (const BiasCorrection correction : corrections)
            add(1, 3, correction, false, false);
        for (const bool exact : {false, true})
            add(3, 1, BiasCorrection::adam, exact, false);
        add(2, 2, BiasCorrection::adam, false, false);
        scope.proves += ", of 1 on 3 (betas 0.9/0.95), of 3 on 1 (adam), and of 2 on 2 (adam, 0.9/0.95)";
    }
    scope.proves +=
        "; in larger models: every gradient of every rank at both steps, every k of the first two "
        "masks and every choice of the third, every owner; of 1 coordinate, every initial "
        "parameter of the values and -0";
    return scope;
}

Scope coordinates(Extent extent) {
    Scope scope{"coordinates", "", "", {}};
    const int most = extent == Extent::quick ? 2 : 3;
    for (const BiasCorrection correction : corrections)
        for (const bool exact : {false, true})
            for (int workers = 1; workers <= most; ++workers)
                for (int k1 = 1; k1 <= 2; ++k1)
                    for (int k2 = 1; k2 <= 2; ++k2)
                        add_coordinates(scope.tasks, shape_of(2, workers, densities_for(2, k1, k2, 1),
                                                              correction, exact));
    scope.proves =
        "proved for all: what becomes of one coordinate on up to " + std::to_string(most) +
        " ranks: every gradient of every rank at both steps, on and off S_1 and S_2, every owner, "
        "3 corrections, 2 pairs of betas";
    return scope;
}

Scope choices(Extent extent) {
    Scope scope{"choices", "", "", {}};
    const bool all = extent == Extent::all;
    const auto add = [&](int segment, int workers, bool exact, int owners) {
        for_each_k(segment, [&](int k1, int k2, int k3) {
            add_first_choices(scope.tasks, shape_of(segment, workers, densities_for(segment, k1, k2, k3),
                                                    BiasCorrection::none, exact));
            // k2 does not affect the third mask.
            if (k2 != (k1 + k3) % segment + 1)
                return;
            for (int owner = workers - owners; owner < workers; ++owner)
                add_choices(scope.tasks,
                            shape_of(segment, workers, densities_for(segment, k1, k2, k3),
                                     BiasCorrection::none, exact, workers > 1 && owner == 0),
                            owner, k1);
        });
    };
    add(2, 2, false, 2);
    add(2, 2, true, 2);
    if (all) {
        add(2, 3, true, 3);
        add(3, 2, false, 2);
        add(3, 2, true, 2);
        add(3, 3, true, 1);
    }
    scope.proves =
        all ? "proved for all: the three choices of an owner over a segment of 2 and 3 coordinates on 2 "
              "ranks "
              "(betas 0.9/0.95 and 0.5/0.75) and on 3 (0.5/0.75; of 3 coordinates the last rank's): every "
              "c that it "
              "can have, every k"
            : "proved for all: the three choices of an owner over a segment of 2 coordinates on 2 ranks: "
              "every c that it can have, every k";
    return scope;
}

Scope drawn_segments(Extent extent) {
    const std::uint64_t draws = extent == Extent::quick ? 4'096 : 200'000;
    Scope scope{
        "drawn segments",
        "drawn, not proved: " + std::to_string(draws) +
            " gradients (seed 1) of segments of 2 and 3 coordinates on 2 and 3 ranks for every k and "
            "owner, corrections and betas in turn",
        "",
        {}};
    std::size_t turn = 0;
    for (int segment = 2; segment <= 3; ++segment)
        for (int workers = 2; workers <= 3; ++workers)
            for_each_k(segment, [&](int k1, int k2, int k3) {
                ++turn;
                const auto shape = shape_of(segment, workers, densities_for(segment, k1, k2, k3),
                                            corrections[turn % 3], turn % 2 == 0, turn % 4 < 2);
                scope.tasks.emplace_back([shape, turn, draws](const SmallScopeHarness& lab, Tally& tally) {
                    Batch batch(shape, lab, tally);
                    Drawn drawn(turn);
                    for (std::uint64_t draw = 0; draw < draws && !tally.over(); ++draw) {
                        Piece piece;
                        piece.owner = static_cast<int>(draw % static_cast<std::uint64_t>(shape.workers));
                        for (auto& of_step : piece.gradients)
                            for (auto& g : of_step)
                                std::generate(g.begin(), g.end(), [&] { return drawn.value(); });
                        batch.add(piece);
                    }
                    batch.flush();
                });
            });
    return scope;
}

std::vector<Scope> all_scopes(Extent extent) {
    std::vector<Scope> all{settings_by_hand()};
    auto whole = whole_problems(extent);
    std::move(whole.begin(), whole.end(), std::back_inserter(all));
    for (const auto& make : {segments, coordinates, choices, drawn_whole, drawn_segments})
        all.push_back(make(extent));
    return all;
}

} // namespace truestep::properties::scape::scope
