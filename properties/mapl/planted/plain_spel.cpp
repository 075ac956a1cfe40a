// Takes a SPEL step of a MAPL subspace in plain loops, with known bugs.
#include "plain_spel.hpp"

#include <utility>

namespace truestep::properties::mapl::plain {

namespace {

constexpr double schedule[8][3]{{8.28721201814563, -23.595886519098837, 17.300387312530933},
                                {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
                                {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
                                {3.3184196573706015, -2.488488024314874, 0.51004894012372},
                                {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
                                {1.891301407787398, -1.2679958271945868, 0.37680408948524835},
                                {1.8750014808534479, -1.2500016453999487, 0.3750001645474248},
                                {1.875, -1.25, 0.375}};

Table powered(const double (&c)[3], double margin, const Table& x) {
    const double m3 = margin * margin * margin;
    const Table square = product(flipped(x), x);
    const Table cubed = product(x, square);
    const Table fifth = product(cubed, square);
    const Table two = mixed(static_cast<float>(c[0] / margin), x, static_cast<float>(c[1] / m3), cubed);
    return mixed(1.0F, two, static_cast<float>(c[2] / (m3 * margin * margin)), fifth);
}

double margin_of(Wrong wrong, int t) {
    return t < 7 || wrong == endless_scaled ? 1.01 : 1.0;
}

Table direction_of(Wrong wrong, const Table& m, int iterations) {
    float squares = 0.0F;
    for (const float value : m.values)
        squares += value * value;
    const auto scale = 1.01F * std::sqrt(squares) + 1e-7F;
    Table x = m;
    for (float& value : x.values)
        value /= scale;
    if (wrong == five_iterations)
        iterations = 5;
    if (wrong == not_transposed_back)
        x = flipped(x);
    for (int t = 0; t < iterations; ++t)
        x = powered(schedule[t < 7 ? t : 7], margin_of(wrong, t), x);
    if (wrong == not_transposed_back)
        x = Table::of(m.columns, std::move(x.values)); // the same places in memory
    return x;
}

Table projected(Wrong wrong, const Table& a, const Table& m) {
    Table s = product(flipped(a), m);
    if (wrong != sym_forgotten)
        s = mixed(0.5F, s, 0.5F, flipped(s));
    if (wrong == columns_by_themselves)
        for (std::size_t i = 0; i < s.values.size(); ++i)
            s.values[i] *= i / s.columns == i % s.columns ? 1.0F : 0.0F;
    return mixed(1.0F, m, -1.0F, product(a, s));
}

} // namespace

TrainedSubspace train(Wrong wrong, const Settings& settings, const Table& a, const Table& before,
                      const Table& m, const Table& g, double rate) {
    const bool first = settings.order == Order::project_first;
    const Table& at = wrong == projected_with_old ? before : a;
    const auto beta = static_cast<float>(settings.beta);
    const auto rest = static_cast<float>(1.0 - settings.beta);
    const Table taken = first ? projected(wrong, at, g) : g;
    TrainedSubspace made;
    made.m = mixed(beta, m, rest, taken);
    Table of = first ? made.m : projected(wrong, at, made.m);
    if (wrong == projected_where_taken && !first)
        of = mixed(beta, projected(wrong, before, m), rest, projected(wrong, a, g));
    if (wrong == polar_of_gradient)
        of = first ? taken : projected(wrong, at, taken);
    if (wrong == momentum_after_polar)
        of = taken;
    Table d = direction_of(wrong, of, settings.direction_iterations);
    if (wrong == momentum_after_polar) {
        made.m = mixed(beta, m, rest, d);
        d = made.m;
    }
    made.a = mixed(1.0F, a, static_cast<float>(wrong == climbs ? rate : -rate), d);
    if (wrong != not_retracted)
        for (int t = 0; t < settings.retraction_iterations; ++t)
            made.a = powered(schedule[7], wrong == endless_scaled ? 1.01 : 1.0, made.a);
    return made;
}

} // namespace truestep::properties::mapl::plain
